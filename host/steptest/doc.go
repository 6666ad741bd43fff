// Package steptest is the conformance suite of steps: whatever a step puts into a kernel, another process takes it
// away again from data alone.
package steptest
