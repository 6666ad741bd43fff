// Package runtimetest holds the conformance suite that every runtime runs, and a fake runtime for tests of what uses
// runtimes.
package runtimetest
