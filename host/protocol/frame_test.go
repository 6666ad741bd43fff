package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/creachadair/jrpc2/channel"
	"github.com/google/go-cmp/cmp"
)

func encode(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

func TestReadFrame(t *testing.T) {
	tests := []struct {
		name, in, want, err string
	}{
		{"one", encode(`{"a":1}`), `{"a":1}`, ""},
		{"large", encode(`"` + strings.Repeat("x", 3*step+17) + `"`), `"` + strings.Repeat("x", 3*step+17) + `"`, ""},
		{"end", "", "", "EOF"},
		{"torn length", "\x00\x00", "", "read frame: incomplete: 2 of 4 bytes of its length: unexpected EOF"},
		{"torn body", encode(`{"a":1}`)[:8], "", "read frame: incomplete: 4 of 7 bytes: unexpected EOF"},
		{"no body", encode(`{"a":1}`)[:4], "", "read frame: incomplete: 0 of 7 bytes: unexpected EOF"},
		{"empty", "\x00\x00\x00\x00", "", "read frame: invalid length 0 (valid: 1 to 67108864)"},
		{"too large", "\x04\x00\x00\x01x", "", "read frame: invalid length 67108865 (valid: 1 to 67108864)"},
		{"negative", "\xff\xff\xff\xff", "", "read frame: invalid length 4294967295 (valid: 1 to 67108864)"},
		{"not JSON", encode(`{"a":`), "", `read frame: not JSON: "{\"a\":"`},
		{"text", "GET / HTTP/1.1\r\n", "", "read frame: invalid length 1195725856 (valid: 1 to 67108864)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readFrame(strings.NewReader(tt.in))
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if text(err) != tt.err {
				t.Errorf("error: got %q, want %q", text(err), tt.err)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A length makes the receiver allocate no more memory than the sender sends.
func TestReadFrameAllocates(t *testing.T) {
	in := "\x04\x00\x00\x00" + strings.Repeat(" ", 100)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readFrame(strings.NewReader(in))
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Fatal("a torn frame was read")
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*step {
		t.Errorf("allocated %d bytes for 104 bytes that claim %d, want at most %d", got, Limit, 4*step)
	}
}

func TestSendLimits(t *testing.T) {
	r, w := pipe(t)
	c := newFrames(r, w)
	defer func() { _ = c.Close() }()
	for _, n := range []int{0, Limit + 1} {
		if err := c.Send(make([]byte, n)); err == nil {
			t.Errorf("sent %d bytes", n)
		}
	}
}

// A peer that does not read blocks nobody, and memory is bounded.
func TestSendToADeafPeer(t *testing.T) {
	_, w := pipe(t)
	r, _ := pipe(t)
	c := newFrames(r, w)
	const size, fit = 1 << 20, 5
	c.room = fit*size + size/2
	body := bytes.Repeat([]byte("1"), size)
	within(t, 5*time.Second, func() {
		var err error
		for n := 0; err == nil; n++ {
			if n > fit {
				t.Fatalf("%d frames of %d bytes are queued", n, size)
			}
			err = c.Send(body)
		}
		if want := "the peer does not read"; !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.Recv(); !errors.Is(err, channel.ErrClosed) {
			t.Errorf("receive after close: got %v, want %v", err, channel.ErrClosed)
		}
		<-c.gone // the writing goroutine gives up
	})
}

// Frames sent before Close arrive.
func TestCloseFlushes(t *testing.T) {
	r, w := pipe(t)
	idle, _ := pipe(t)
	c := newFrames(idle, w)
	const n = 100
	body := `"` + strings.Repeat("x", 10_000) + `"`
	for range n {
		if err := c.Send([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Send([]byte(body)); !errors.Is(err, channel.ErrClosed) {
		t.Errorf("send after close: got %v, want %v", err, channel.ErrClosed)
	}
	within(t, 5*time.Second, func() {
		for i := range n {
			if got, err := readFrame(r); err != nil || string(got) != body {
				t.Fatalf("frame %d: %d bytes, %v", i, len(got), err)
			}
		}
		if _, err := readFrame(r); !errors.Is(err, io.EOF) {
			t.Errorf("after the last frame: got %v, want EOF", err)
		}
	})
}

func FuzzRecv(f *testing.F) {
	f.Add([]byte(encode(`{"jsonrpc":"2.0","id":1,"method":"hello"}`)))
	f.Add([]byte(encode(`[1,2]`) + encode(`null`) + "\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Add([]byte("\x7f\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		for total := 0; ; {
			before := r.Len()
			body, err := readFrame(r)
			if (err == nil) == (body == nil) {
				t.Fatalf("body %q and error %v: want one of them", body, err)
			}
			if errors.Is(err, io.EOF) && before != 0 {
				t.Fatalf("EOF with %d bytes left", before)
			}
			if err != nil {
				return
			}
			if !json.Valid(body) || len(body) == 0 || len(body) > Limit {
				t.Fatalf("not a body: %q", body)
			}
			total += 4 + len(body)
			if total != len(in)-r.Len() {
				t.Fatalf("read %d bytes for frames of %d", len(in)-r.Len(), total)
			}
		}
	})
}

func pipe(t testing.TB) (*os.File, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

// within fails the test if f takes longer than d.
func within(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(d):
		buf := make([]byte, 1<<16)
		t.Fatalf("still running after %s:\n%s", d, buf[:runtime.Stack(buf, true)])
	}
}
