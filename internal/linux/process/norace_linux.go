//go:build !race

package process

// detector is by how much the race detector multiplies the memory of a program. It is off.
const detector = 1
