// Package turntest tests turns: a suite that every implementation of the turn runs, and a fake one within a process.
package turntest
