// Package carriertest holds the conformance suite that all kinds of carriers have in common: tunnels and encryptions.
package carriertest
