// Package program is an endpoint that is somebody else's program: started in the container's namespace for each trial,
// on the CPU of its thread, watched while its traffic flows, and read between blocks.
package program
