package kv

import "github.com/nettoll/nettoll/traffic/dialogue"

// What is said of the protocol below is in https://redis.io/docs/latest/develop/reference/protocol-spec/ (RESP2).

const (
	// headLimit is by how many bytes the length of an answer is known: an error is a line, which no server makes longer.
	headLimit = 1024

	// mostDigits is how many digits a length has at most: 512 MB is the longest string (proto-max-bulk-len in redis.conf).
	mostDigits = 9

	ok      = "+OK\r\n"
	missing = "$-1\r\n" // there is no value
)

// number reads the decimal number that a line holds from b[at] on, as lengths are written: without a sign and without
// zeros in front. It returns where the next line begins: 0 where this one is not whole yet, and -1 where it is no
// number.
//
//go:nosplit
func number(b []byte, at int) (n, next int) {
	i := at
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if i-at == mostDigits || i > at && b[at] == '0' {
			return 0, -1
		}
		n = 10*n + int(b[i]-'0')
	}
	switch {
	case i == len(b):
		return 0, 0
	case i == at || b[i] != '\r':
		return 0, -1
	case i+1 == len(b):
		return 0, 0
	case b[i+1] != '\n':
		return 0, -1
	}
	return n, i + 2
}

// line returns how many bytes the line has that b begins with, its end included: 0 where it is not whole yet, and -1
// where it has bytes that no line has.
//
//go:nosplit
func line(b []byte) int {
	for i, c := range b {
		switch {
		case c == '\n':
			return -1
		case c == '\r' && i+1 == len(b):
			return 0
		case c == '\r' && b[i+1] == '\n':
			return i + 2
		case c == '\r':
			return -1
		}
	}
	return 0
}

// judgeError judges what begins like an error.
//
//go:nosplit
func judgeError(head []byte) (int, dialogue.Verdict) {
	switch n := line(head); {
	case n == 0:
		return 0, dialogue.Partial
	case n < 0:
		return 0, dialogue.Alien
	default:
		return n, dialogue.Bad
	}
}

// begins says whether head begins with what is wanted, as far as it goes.
//
//go:nosplit
func begins(head []byte, want string) bool {
	for i := range min(len(head), len(want)) {
		if head[i] != want[i] {
			return false
		}
	}
	return true
}

// judgeOK judges the answer to a set.
//
//go:nosplit
func judgeOK(head []byte) (int, dialogue.Verdict) {
	switch {
	case head[0] == '-':
		return judgeError(head)
	case !begins(head, ok):
		return 0, dialogue.Alien
	case len(head) < len(ok):
		return 0, dialogue.Partial
	}
	return len(ok), dialogue.Good
}

// judgeValue judges the answer to a get of a value that has so many bytes. Where it has another number the answer is
// alien, and that is returned.
//
//go:nosplit
func judgeValue(head []byte, payload int) (int, dialogue.Verdict) {
	switch {
	case head[0] == '-':
		return judgeError(head)
	case head[0] != '$':
		return 0, dialogue.Alien
	case len(head) == 1:
		return 0, dialogue.Partial
	case head[1] == '-':
		switch {
		case !begins(head, missing):
			return 0, dialogue.Alien
		case len(head) < len(missing):
			return 0, dialogue.Partial
		}
		return len(missing), dialogue.Bad
	}
	n, next := number(head, 1)
	switch {
	case next == 0:
		return 0, dialogue.Partial
	case next < 0:
		return 0, dialogue.Alien
	case n != payload:
		return n, dialogue.Alien
	}
	return next + n + len("\r\n"), dialogue.Good
}
