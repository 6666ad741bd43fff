// Package runtimetest holds the conformance suite that every runtime runs, and a fake runtime for tests of code that
// uses runtimes.
package runtimetest
