package http

import (
	"strconv"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
)

// The path of the page, and the message of nettoll's source at the end of its trial.
const (
	pagePath     = "/page"
	farewellPath = "/over"
	farewell     = "HTTP/1.1 204 No Content\r\n\r\n" // the answer to that message
)

// second is how long a Date is valid, in ns.
const second = int64(time.Second)

// server answers GET and HEAD requests for its page (RFC 9110, RFC 9112).
type server struct {
	page    []byte
	date    [len(dateFormat)]byte
	expires int64 // CLOCK_MONOTONIC, ns: when date becomes invalid
}

// dateFormat is the format of Date (RFC 9110, section 5.6.7).
const dateFormat = "Mon, 02 Jan 2006 15:04:05 GMT"

func newServer(size int) *server { return &server{page: traffic.Payload(size)} }

// Serve implements [dialogue.Answerer].
func (s *server) Serve(in, out []byte) (int, []byte, dialogue.Then) {
	r, status, whole := parseRequest(in)
	switch {
	case !whole:
		return len(in) + 1, out, dialogue.Wait
	case status != 0:
		return len(in), s.reply(out, status, 0, false), dialogue.HangUp
	}
	then := dialogue.Next
	if !r.keep {
		then = dialogue.HangUp
	}
	get, head := string(r.method) == "GET", string(r.method) == "HEAD"
	switch {
	case string(r.method) == "POST" && string(r.path) == farewellPath:
		return r.size, append(out, farewell...), dialogue.Over
	case !get && !head:
		return r.size, s.reply(out, notImplemented, 0, r.keep), then
	case string(r.path) != pagePath:
		return r.size, s.reply(out, notFound, 0, r.keep), then
	}
	out = s.reply(out, ok, len(s.page), r.keep)
	if head {
		return r.size, out, then
	}
	return r.size, append(out, s.page...), then
}

// reply appends the head of an answer. Error answers have no body.
func (s *server) reply(out []byte, status, length int, keep bool) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(out, ' ')
	out = append(out, reason(status)...)
	out = append(out, "\r\nServer: nettoll\r\nDate: "...)
	if now := clock.Now(); now >= s.expires {
		s.tell(now)
	}
	out = append(out, s.date[:]...)
	out = append(out, "\r\nContent-Type: application/octet-stream\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(length), 10)
	if keep {
		return append(out, "\r\nConnection: keep-alive\r\n\r\n"...)
	}
	return append(out, "\r\nConnection: close\r\n\r\n"...)
}

// tell makes a new Date, which an origin server with a clock has to send (RFC 9110, section 6.6.1).
func (s *server) tell(now int64) {
	at := time.Now().UTC()
	s.expires = now + second - int64(at.Nanosecond())
	at.AppendFormat(s.date[:0], dateFormat)
}

// reason returns the reason phrase of a status.
func reason(status int) string {
	switch status {
	case ok:
		return "OK"
	case badRequest:
		return "Bad Request"
	case notFound:
		return "Not Found"
	case tooLarge:
		return "Content Too Large"
	case headTooLarge:
		return "Request Header Fields Too Large"
	case notImplemented:
		return "Not Implemented"
	default:
		return "HTTP Version Not Supported"
	}
}
