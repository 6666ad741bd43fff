// Package program is an endpoint that runs an external program. It starts the program in the container's namespace for
// each trial, on the CPU of its thread, observes it while its traffic flows, and reads its output between blocks.
package program
