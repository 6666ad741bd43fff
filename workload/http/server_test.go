package http

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/traffic/dialogue"
)

const (
	get  = "GET /page HTTP/1.1\r\nHost: a\r\n\r\n"
	post = "POST /over HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
)

func TestHandle(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		status   int // 0: the request is incomplete
		then     dialogue.Then
		taken    int // 0: all
	}{
		{"a page", get, 200, dialogue.Next, 0},
		{"two at once", get + get, 200, dialogue.Next, len(get)},
		{"its head", "HEAD /page HTTP/1.1\r\nHost: a\r\n\r\n", 200, dialogue.Next, 0},
		{"with a question", "GET /page?a=b HTTP/1.1\r\nHost: a\r\n\r\n", 200, dialogue.Next, 0},
		{"in absolute form", "GET http://a:80/page HTTP/1.1\r\nHost: a\r\n\r\n", 200, dialogue.Next, 0},
		{"after an empty line", "\r\n" + get, 200, dialogue.Next, 0},
		{"for the last time", "GET /page HTTP/1.1\r\nhost:a\r\nConnection: x, Close\r\n\r\n", 200, dialogue.HangUp, 0},
		{"by an older client", "GET /page HTTP/1.0\r\n\r\n", 200, dialogue.HangUp, 0},
		{"by an older client, to be kept", "GET /page HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 200, dialogue.Next, 0},
		{"another page", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 404, dialogue.Next, 0},
		{"in absolute form, IPv6", "GET HTTP://[::1]:80/page HTTP/1.1\r\nHost: a\r\n\r\n", 200, dialogue.Next, 0},
		{"no scheme", "GET ~:///page? HTTP/1.1\r\nHost:\r\n\r\n", 400, dialogue.HangUp, 0},
		{"no port", "GET http://a:b/page HTTP/1.1\r\nHost: a\r\n\r\n", 400, dialogue.HangUp, 0},
		{"another site", "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 404, dialogue.Next, 0},
		{"the head of another page", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 404, dialogue.Next, 0},
		{"another method", "PUT /page HTTP/1.1\r\nHost: a\r\n\r\n", 501, dialogue.Next, 0},
		{"a body", "GET /page HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", 413, dialogue.HangUp, 0},
		{"a body in chunks", "GET /page HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 501, dialogue.HangUp, 0},
		{"no host", "GET /page HTTP/1.1\r\n\r\n", 400, dialogue.HangUp, 0},
		{"two hosts", "GET /page HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, dialogue.HangUp, 0},
		{"no version", "GET /page\r\n\r\n", 400, dialogue.HangUp, 0},
		{"another version", "GET /page HTTP/2.0\r\nHost: a\r\n\r\n", 505, dialogue.HangUp, 0},
		{"two spaces", "GET  /page HTTP/1.1\r\nHost: a\r\n\r\n", 400, dialogue.HangUp, 0},
		{"a header that is none", "GET /page HTTP/1.1\r\nHost: a\r\nx\r\n\r\n", 400, dialogue.HangUp, 0},
		{"another protocol", "\x16\x03\x01\r\n\r\n", 400, dialogue.HangUp, 0},
		{"a head too long", "GET /page HTTP/1.1\r\nX: " + strings.Repeat("x", headLimit), 431, dialogue.HangUp, 0},
		{"the end", post, 204, dialogue.Over, 0},
		{"half of it", get[:20], 0, dialogue.Wait, 21},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(5)
			taken, out, then := s.Serve([]byte(tt.in), nil)
			want := tt.taken
			if want == 0 {
				want = len(tt.in)
			}
			if then != tt.then || taken != want {
				t.Errorf("then %d after %d bytes, want %d after %d", then, taken, tt.then, want)
			}
			if tt.status == 0 {
				if len(out) > 0 {
					t.Errorf("answered %q", out)
				}
				return
			}
			r := answer(t, tt.in, out)
			if r.StatusCode != tt.status || r.Close != (tt.then == dialogue.HangUp) || r.Header.Get("Date") == "" &&
				tt.status != noContent {
				t.Errorf("%q, want status %d", out, tt.status)
			}
		})
	}
}

// answer reads an answer with Go's own client, and checks that it is complete and that nothing follows.
func answer(t testing.TB, in string, out []byte) *http.Response {
	t.Helper()
	method, _, _ := strings.Cut(strings.TrimSpace(in), " ")
	from := bufio.NewReader(bytes.NewReader(out))
	r, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	defer r.Body.Close()
	if n, err := io.Copy(io.Discard, r.Body); err != nil || r.ContentLength > 0 && n != r.ContentLength &&
		method != "HEAD" {
		t.Errorf("%q: a body of %d bytes, %v", out, n, err)
	}
	if left, err := io.ReadAll(from); err != nil || len(left) > 0 {
		t.Errorf("%q: %q is left, %v", out, left, err)
	}
	return r
}

// The server answers the client's requests as expected.
func TestBothEnds(t *testing.T) {
	for _, size := range []int{0, 1, 615, 1 << 20} {
		s, c := newServer(size), client{want: size}
		_, out, _ := s.Serve([]byte(get), nil)
		if n, v := c.Answer(0, out); v != dialogue.Good || n != len(out) || !bytes.HasSuffix(out, s.page) {
			t.Errorf("page of %d bytes: %d of %d bytes, verdict %d", size, n, len(out), v)
		}
	}
}

// FuzzHandle checks that any input gets one answer that Go's own client understands, or waits for more data.
func FuzzHandle(f *testing.F) {
	for _, s := range []string{
		get, get + get, post, get[:10], "\r\n\r\n", "HEAD / HTTP/1.0\r\n\r\n",
		"GET http://a/page?x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newServer(5)
		taken, out, then := s.Serve(b, nil)
		if then == dialogue.Wait {
			if len(out) > 0 || taken <= len(b) {
				t.Fatalf("%q: waits for %d bytes, answers %q", b, taken, out)
			}
			return
		}
		if taken < 1 || taken > len(b) {
			t.Fatalf("%q: %d bytes taken", b, taken)
		}
		r := answer(t, string(b), out)
		if r.StatusCode != ok {
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.TrimPrefix(b, []byte(lineEnd)))))
		if err != nil {
			t.Errorf("%q is answered, and Go's server refuses it: %v", b, err)
		} else if theirs.URL.Path != pagePath {
			t.Errorf("%q is answered, and Go's server has it ask for %q", b, theirs.URL.Path)
		}
	})
}
