package kv

import "github.com/nettoll/nettoll/traffic/dialogue"

// The facts about the protocol below are from https://redis.io/docs/latest/develop/reference/protocol-spec/ (RESP2).

const (
	// headLimit is the number of bytes from which the length of an answer is known: an error is one line, and no server
	// sends a longer one.
	headLimit = 1024

	// mostDigits is the largest number of digits of a length: the longest string has 512 MB (proto-max-bulk-len in
	// redis.conf).
	mostDigits = 9

	ok      = "+OK\r\n"
	missing = "$-1\r\n" // there is no value
)

// number reads the decimal number on the line that starts at b[at], in the form of a length: without a sign and without
// leading zeros. It returns the start of the next line: 0 if this line is incomplete, and -1 if it is not a number.
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

// line returns the length in bytes of the line at the start of b, including its end: 0 if it is incomplete, and -1 if
// it has bytes that are not valid in a line.
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

// judgeError judges an answer that begins like an error.
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

// begins reports whether head begins with want, as far as it has arrived.
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

// judgeValue judges the answer to a get of a value with this many bytes. If it has another length, the answer is alien,
// and that length is returned.
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
