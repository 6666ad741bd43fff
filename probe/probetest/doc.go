// Package probetest tests probes: a suite that every probe runs, and a fake one.
package probetest
