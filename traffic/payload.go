package traffic

import "math/rand/v2"

// Buffer makes room for n bytes that shares no cache line with what others write to, nor the line that CPUs fetch with
// it: of two of 64 bytes side by side, written by two CPUs, each costs the other 4 % of its rate.
func Buffer(n int) []byte {
	const lines = 128 // bytes
	return make([]byte, lines+n+lines)[lines:][:n:n]
}

// Payload makes n bytes to send, of which headers take the first. They are noise, as iperf3's are: a tunnel cannot
// compress it, and its pages are its own. Memory that was never written is one page of zeros, over and over, which
// never leaves the first level cache and is copied sooner than anything a program has to send.
func Payload(n int) []byte {
	b := Buffer(n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}
