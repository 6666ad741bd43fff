// Package stacktest holds the conformance suite of kinds, which every list of kinds runs.
package stacktest
