// Package networktest holds the conformance suite that every network runs, and a fake network for tests of what uses
// networks.
package networktest
