package http

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/traffic/dialogue"
)

const page = "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 5\r\n\r\nhello"

func TestParseResponse(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     response
		flaw     flaw
	}{
		{"a page", page, response{200, 53, 5}, none},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length:5 \r\n\r\nhello", response{200, 38, 5}, none},
		{"no reason", "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", response{404, 36, 0}, none},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", response{204, 27, 0}, none},
		{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", response{304, 48, 0}, none},
		{"nothing", "", response{}, unfinished},
		{"its beginning", "HTTP/1.1 200 OK\r\nContent-", response{}, unfinished},
		{"all but its last byte", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r", response{}, unfinished},
		{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", response{}, malformed},
		{"another version", "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"a version of two digits", "HTTP/1.10 200 OK\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"no space", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"no status", "HTTP/1.1 abc OK\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"a status of none", "HTTP/1.1 999 OK\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"a control character", "HTTP/1.1 200 O\x01K\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"a line without a colon", "HTTP/1.1 200 OK\r\nContent-Length 5\r\n\r\n", response{}, malformed},
		{"a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", response{}, malformed},
		{"a line that goes on", "HTTP/1.1 200 OK\r\nServer: a\r\n b\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"a bare line feed", "HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", response{}, malformed},
		{"a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", response{}, malformed},
		{"a length below zero", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", response{}, malformed},
		{"a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", response{}, malformed},
		{"a length of no digit", "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", response{}, malformed},
		{"a length beyond all", "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\n", response{}, malformed},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", response{}, coded},
		{"until the end", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", response{}, unbounded},
		{"for now", "HTTP/1.1 100 Continue\r\n\r\n", response{}, interim},
		{"a head without end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headLimit), response{}, malformed},
		{"a head too long", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headLimit) + "\r\n\r\n", response{}, malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, flaw := parseResponse([]byte(tt.in))
			if flaw != tt.flaw || flaw == none && got != tt.want {
				t.Errorf("%+v, flaw %d, want %+v, flaw %d", got, flaw, tt.want, tt.flaw)
			}
		})
	}
}

// A response is judged the same, whether an equal one was seen before or not.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		in      string
		size    int
		want    dialogue.Verdict
		because string
	}{
		{page, 58, dialogue.Good, ""},
		{page[:20], 0, dialogue.Partial, ""},
		{strings.Replace(page, ": 5", ": 6", 1), 0, dialogue.Alien, "6 bytes instead of 5"},
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n", 48, dialogue.Bad, "status 404"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0, dialogue.Alien, "chunked"},
		{"HTTP/1.1 200 OK\r\n\r\n", 0, dialogue.Alien, "no Content-Length"},
		{"HTTP/1.1 103 Early Hints\r\n\r\n", 0, dialogue.Alien, "status 103"},
		{"220 smtp\r\n", 0, dialogue.Alien, ""},
	} {
		c := client{want: 5}
		for _, seen := range []bool{false, true} {
			if size, v := c.Answer(0, []byte(tt.in)); v != tt.want || v != dialogue.Partial && size != tt.size {
				t.Errorf("%q (seen: %v): %d bytes, verdict %d, want %d, %d", tt.in, seen, size, v, tt.size, tt.want)
			}
			if size, v := c.Answer(0, []byte(page+"HTTP")); size != len(page) || v != dialogue.Good {
				t.Errorf("a page after %q: %d bytes, verdict %d", tt.in, size, v)
			}
		}
		if because := c.explain(0, []byte(tt.in)); tt.want != dialogue.Good && tt.want != dialogue.Partial &&
			!strings.Contains(because, tt.because) {
			t.Errorf("%q: %q, want %q", tt.in, because, tt.because)
		}
	}
}

// FuzzParseResponse checks that every accepted response is also one for Go's own client, with the same length.
func FuzzParseResponse(f *testing.F) {
	for _, s := range []string{
		page, page[:30], "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 \r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.0 500 x\r\nConnection: a, close\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, flaw := parseResponse(b)
		if flaw != none {
			return
		}
		if got.head > len(b) || got.body < 0 {
			t.Fatalf("%+v of %d bytes", got, len(b))
		}
		whole := append(bytes.Clone(b[:got.head]), make([]byte, min(got.body, 1<<20))...)
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(whole)), nil)
		if err != nil {
			t.Fatalf("Go's client refuses %q: %v", b[:got.head], err)
		}
		defer theirs.Body.Close()
		if theirs.StatusCode != got.status || got.status != 204 && got.status != 304 &&
			theirs.ContentLength != int64(got.body) {
			t.Errorf("%q: %+v, Go has status %d, length %d", b[:got.head], got, theirs.StatusCode, theirs.ContentLength)
		}
	})
}

// FuzzJudgePieces checks that a head may arrive in pieces.
func FuzzJudgePieces(f *testing.F) {
	f.Add([]byte(page))
	f.Add([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := client{want: 5}
		size, v := whole.Answer(0, b)
		pieces := client{want: 5}
		for n := range b {
			s, w := pieces.Answer(0, b[:n+1])
			if w == dialogue.Partial {
				continue
			}
			if w != v || s != size {
				t.Errorf("%q: %d bytes say %d, %d, all of them %d, %d", b, n+1, s, w, size, v)
			}
			return
		}
		if v != dialogue.Partial && len(b) > 0 {
			t.Errorf("%q: partial in pieces, %d, %d as a whole", b, size, v)
		}
	})
}
