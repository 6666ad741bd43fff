// Package turntest tests turns: a suite that every implementation of the turn runs, and a fake turn within one process.
package turntest
