package http

import "bytes"

// headLimit is the largest length of a message's head in bytes, the same as in nginx for requests
// (large_client_header_buffers).
const headLimit = 8 << 10

// end marks the end of the head of a message, and lineEnd the end of its lines. Other line ends, which RFC 9112,
// section 2.2, leaves to the recipient, are refused.
const (
	lineEnd = "\r\n"
	headEnd = lineEnd + lineEnd
)

// fields holds the relevant header fields of a message (RFC 9112, sections 5 and 6).
type fields struct {
	length     int  // of Content-Length, in bytes; -1: there is none
	coded      bool // there is a Transfer-Encoding
	hosts      int  // number of Host fields
	close      bool // Connection: close
	persistent bool // Connection: keep-alive
}

// mostDigits is the length of the longest Content-Length that is accepted.
const mostDigits = 15

// parseFields reads header fields, each with its line end. It is strict: it accepts nothing that RFC 9112 merely allows
// a recipient to tolerate.
func parseFields(b []byte) (f fields, ok bool) {
	f.length = -1
	for len(b) > 0 {
		n := bytes.Index(b, []byte(lineEnd))
		if n < 0 {
			return f, false
		}
		line := b[:n]
		b = b[n+len(lineEnd):]
		colon := bytes.IndexByte(line, ':')
		if colon < 1 || !token(line[:colon]) {
			return f, false // also a line that continues the previous one (obs-fold, section 5.2)
		}
		value := trim(line[colon+1:])
		if !text(value) || !f.take(line[:colon], value) {
			return f, false
		}
	}
	return f, true
}

// take records one field.
func (f *fields) take(name, value []byte) bool {
	switch {
	case is(name, "content-length"):
		if f.length >= 0 || len(value) == 0 || len(value) > mostDigits {
			return false // two of them are used to smuggle requests (section 11.2)
		}
		f.length = 0
		for _, c := range value {
			if c < '0' || c > '9' {
				return false
			}
			f.length = f.length*10 + int(c-'0')
		}
	case is(name, "transfer-encoding"):
		f.coded = true
	case is(name, "host"):
		f.hosts++
	case is(name, "connection"):
		for len(value) > 0 {
			option := value
			if comma := bytes.IndexByte(value, ','); comma >= 0 {
				option, value = value[:comma], value[comma+1:]
			} else {
				value = nil
			}
			option = trim(option)
			f.close = f.close || is(option, "close")
			f.persistent = f.persistent || is(option, "keep-alive")
		}
	}
	return true
}

// is reports whether b equals a lower-case word, ignoring case.
func is(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// trim removes spaces and tabs (OWS, RFC 9110, section 5.6.3).
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// token reports whether b consists of the characters of names (tchar, RFC 9110, section 5.6.2).
func token(b []byte) bool {
	for _, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0:
		default:
			return false
		}
	}
	return len(b) > 0
}

// text reports whether b consists of the characters of values: visible characters, spaces, tabs, and bytes that are not
// ASCII (RFC 9110, section 5.5).
func text(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
