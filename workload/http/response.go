package http

import (
	"bytes"
	"fmt"

	"github.com/nettoll/nettoll/traffic/dialogue"
)

// ok is the only status that is not an error here (RFC 9110, section 15.3.1).
const ok = 200

// A flaw is the reason why the start of a response cannot be used.
type flaw int

// The flaws.
const (
	none flaw = iota
	unfinished
	malformed
	interim   // a status below 200: another response follows, which was not requested
	coded     // chunked: its length is only known at its end
	unbounded // it lasts until the connection ends
)

// response holds the head of a response.
type response struct {
	status int
	head   int // bytes
	body   int // bytes
}

// parseResponse parses the head at the start of b (RFC 9112, section 4).
func parseResponse(b []byte) (response, flaw) {
	const version, rest = "HTTP/1.", "1 200 "
	if n := min(len(b), len(version)); string(b[:n]) != version[:n] {
		return response{}, malformed // more data would not help
	}
	end := bytes.Index(b, []byte(headEnd))
	if end < 0 || end > headLimit-len(headEnd) {
		if len(b) >= headLimit {
			return response{}, malformed
		}
		return response{}, unfinished
	}
	r := response{head: end + len(headEnd)}
	line := b[:bytes.Index(b, []byte(lineEnd))]
	if len(line) < len(version+rest) || line[7] < '0' || line[7] > '9' || line[8] != ' ' || line[12] != ' ' ||
		!text(line[13:]) {
		return r, malformed
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return r, malformed
		}
		r.status = r.status*10 + int(c-'0')
	}
	f, fine := parseFields(b[len(line)+len(lineEnd) : end+len(lineEnd)])
	switch {
	case !fine || r.status < 100 || r.status > 599:
		return r, malformed
	case r.status < 200:
		return r, interim
	case r.status == 204 || r.status == 304: // these have no body, whatever the fields say (section 6.3)
		return r, none
	case f.coded:
		return r, coded
	case f.length < 0:
		return r, unbounded
	}
	r.body = f.length
	return r, none
}

// client requests one page repeatedly.
type client struct {
	request []byte
	want    int // length of the page in bytes

	// The head of the last page, and its length: equal bytes have the same meaning. They change once a second, with the
	// server's clock.
	seen     [headLimit]byte
	seenSize int
}

// Request implements [dialogue.Asker].
//
//go:nosplit
func (c *client) Request(uint64) []byte { return c.request }

// Answer implements [dialogue.Asker].
func (c *client) Answer(_ uint64, b []byte) (int, dialogue.Verdict) {
	if n := c.seenSize; n > 0 && len(b) >= n && string(b[:n]) == string(c.seen[:n]) {
		return n + c.want, dialogue.Good
	}
	r, flaw := parseResponse(b)
	switch {
	case flaw == unfinished:
		return 0, dialogue.Partial
	case flaw != none, r.status == ok && r.body != c.want:
		return 0, dialogue.Alien
	case r.status != ok:
		return r.head + r.body, dialogue.Bad
	}
	c.seenSize = copy(c.seen[:], b[:r.head])
	return r.head + r.body, dialogue.Good
}

// explain implements [dialogue.Asks].
func (c *client) explain(_ uint64, b []byte) string {
	r, flaw := parseResponse(b)
	switch {
	case flaw == coded:
		return "it is chunked (Transfer-Encoding), so its length is unknown in advance"
	case flaw == unbounded:
		return "it has no Content-Length, so its length is unknown in advance"
	case flaw == interim:
		return fmt.Sprintf("unexpected status %d", r.status)
	case flaw == none && r.status == ok:
		return fmt.Sprintf("a page of %d bytes instead of %d", r.body, c.want)
	case flaw == none:
		return fmt.Sprintf("status %d", r.status)
	}
	return "" // the start is quoted
}
