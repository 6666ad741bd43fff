//go:build race

package process

// detector is by how much the race detector multiplies the memory of a program ("5-10x",
// https://go.dev/doc/articles/race_detector).
const detector = 10
