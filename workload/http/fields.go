package http

import "bytes"

// headLimit is how long the head of a message may be, in bytes: as nginx has it for requests
// (large_client_header_buffers).
const headLimit = 8 << 10

// end is where the head of a message ends, and lineEnd its lines. A line that ends otherwise, which RFC 9112, section
// 2.2, leaves to the recipient, is refused.
const (
	lineEnd = "\r\n"
	headEnd = lineEnd + lineEnd
)

// fields is what the header fields of a message say that matter here (RFC 9112, sections 5 and 6).
type fields struct {
	length     int  // of Content-Length, in bytes; -1: there is none
	coded      bool // there is a Transfer-Encoding
	hosts      int  // how many fields Host there are
	close      bool // Connection: close
	persistent bool // Connection: keep-alive
}

// mostDigits are those of the longest Content-Length that is understood.
const mostDigits = 15

// parseFields reads header fields, each with its line end. It is strict: what RFC 9112 allows a recipient to forgive is
// not forgiven.
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
			return f, false // also a line that goes on from the one before (obs-fold, section 5.2)
		}
		value := trim(line[colon+1:])
		if !text(value) || !f.take(line[:colon], value) {
			return f, false
		}
	}
	return f, true
}

// take takes note of one field.
func (f *fields) take(name, value []byte) bool {
	switch {
	case is(name, "content-length"):
		if f.length >= 0 || len(value) == 0 || len(value) > mostDigits {
			return false // two of them are how requests are smuggled (section 11.2)
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

// is says whether b is a word, which is in lower case, without regard to case.
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

// trim cuts off spaces and tabs (OWS, RFC 9110, section 5.6.3).
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// token says whether b is made of what names are made of (tchar, RFC 9110, section 5.6.2).
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

// text says whether b is made of what values are made of: anything visible, spaces, tabs and what is not ASCII (RFC
// 9110, section 5.5).
func text(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
