package kv

import (
	"fmt"
	"math"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
	"github.com/nettoll/nettoll/workload"
)

// asker makes requests and checks responses.
type asker struct {
	keys    uint64
	sets    uint64 // of 2^32 operations
	seed    uint64
	payload int
	get     message
	set     message
}

// message is a request in which only the key varies.
type message struct {
	bytes []byte
	end   int // end of the key
}

func newAsker(p part.Params, seed uint64) *asker {
	a := &asker{keys: uint64(workload.Keys(p)), seed: seed, payload: p.Size("payload")}
	switch p["operation"] {
	case opSet:
		a.sets = 1 << 32
	case opMixed:
		a.sets = uint64(math.Round(p.Share("sets") * (1 << 32)))
	}
	key := keyOf(0)
	a.get.bytes = command("GET", key)
	a.get.end = len(a.get.bytes) - len("\r\n")
	a.set.bytes = command("SET", key, traffic.Payload(a.payload))
	a.set.end = len(command("SET", key)) - len("\r\n")
	return a
}

// keyOf returns the key with a number, as redis-benchmark writes it (redis-benchmark.c, "key:__rand_int__").
func keyOf(number int) []byte { return fmt.Appendf(nil, "key:%0*d", keyDigits, number) }

const keyDigits = 12

// command returns a request: an array of bulk strings.
func command(name string, args ...[]byte) []byte {
	b := fmt.Appendf(nil, "*%d\r\n$%d\r\n%s\r\n", 1+len(args), len(name), name)
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n", len(arg))
		b = append(append(b, arg...), "\r\n"...)
	}
	return b
}

// about writes the key with a number into the request.
//
//go:nosplit
func (m *message) about(key uint64) []byte {
	for i := 1; i <= keyDigits; i++ {
		m.bytes[m.end-i] = byte('0' + key%10)
		key /= 10
	}
	return m.bytes
}

// isSet reports whether the operation with a number is a set. Sets are spread as evenly as possible: in any number of
// operations, their share is right to within one.
//
//go:nosplit
func (a *asker) isSet(number uint64) bool { return (number+1)*a.sets>>32 != number*a.sets>>32 }

// key returns the key of the operation with a number: a hash of it (splitmix64, Steele et al. 2014).
//
//go:nosplit
func (a *asker) key(number uint64) uint64 {
	z := a.seed + (number+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z ^ z>>31) % a.keys
}

// Request implements [dialogue.Asker].
//
//go:nosplit
func (a *asker) Request(number uint64) []byte {
	if a.isSet(number) {
		return a.set.about(a.key(number))
	}
	return a.get.about(a.key(number))
}

// Answer implements [dialogue.Asker].
//
//go:nosplit
func (a *asker) Answer(number uint64, head []byte) (int, dialogue.Verdict) {
	if a.isSet(number) {
		return judgeOK(head)
	}
	return judgeValue(head, a.payload)
}

// loader fills a server: each request sets another key.
type loader struct{ *asker }

// Request implements [dialogue.Asker].
//
//go:nosplit
func (l *loader) Request(number uint64) []byte { return l.set.about(number) }

// Answer implements [dialogue.Asker].
//
//go:nosplit
func (*loader) Answer(_ uint64, head []byte) (int, dialogue.Verdict) { return judgeOK(head) }

// explain implements dialogue.Asks.Explain.
func (a *asker) explain(_ uint64, head []byte) string {
	if size, verdict := judgeValue(head, -1); verdict == dialogue.Alien && size > 0 {
		return fmt.Sprintf("a value of %d bytes instead of %d", size, a.payload)
	}
	return ""
}
