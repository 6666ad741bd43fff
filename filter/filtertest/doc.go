// Package filtertest holds the conformance suite that every filter runs.
package filtertest
