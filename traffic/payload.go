package traffic

import "math/rand/v2"

// Buffer returns n bytes that share no cache line with memory that others write to, nor with the adjacent line that
// CPUs fetch with it: if two CPUs write to two adjacent lines of 64 bytes, each loses 4 % of its rate.
func Buffer(n int) []byte {
	const lines = 128 // bytes
	return make([]byte, lines+n+lines)[lines:][:n:n]
}

// Payload returns n bytes to send, of which headers take the first. They are noise, like iperf3's, so that a tunnel
// cannot compress them, and their pages are distinct. Memory that was never written is a single page of zeros, which
// never leaves the first-level cache and is copied faster than a program's data.
func Payload(n int) []byte {
	b := Buffer(n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // cannot fail
	return b
}
