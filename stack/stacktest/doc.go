// Package stacktest holds the conformance suite of kinds: what every list of kinds must do, whatever its parts are.
package stacktest
