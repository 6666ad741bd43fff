// Package steptest is the conformance suite of steps: another process can undo every step from data alone.
package steptest
