package http

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// elsewhere is http with another program's server as the sink.
type elsewhere struct {
	Workload
	serve func(net.Listener)
}

func (e elsewhere) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Side == workload.Source {
		return e.Workload.Open(s)
	}
	l, err := net.Listen("tcp", s.Local.String()) //nolint:noctx // it takes no time
	if err != nil {
		return nil, err
	}
	go e.serve(l)
	return &listening{Listener: l}, nil
}

// listening is an endpoint that does nothing: its server has its own threads.
type listening struct {
	net.Listener
	sample traffic.Sample
}

func (l *listening) Prepare(uint64)               { l.sample = traffic.Sample{} }
func (l *listening) Run(uint64, traffic.Window)   {}
func (l *listening) Sample() *traffic.Sample      { return &l.sample }
func (l *listening) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (l *listening) Facts() (sock.Facts, error)   { return sock.Facts{}, nil }
func (l *listening) Close()                       { _ = l.Listener.Close() }

// Go's own server serves the page, and other responses.
func TestGoServer(t *testing.T) {
	page := traffic.Payload(615)
	answered := 0
	for _, tt := range []struct {
		name    string
		given   map[string]string
		handle  http.HandlerFunc
		failure string
		errors  bool
	}{
		{"kept alive", nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }, "", false},
		{"renewed", map[string]string{"connection": "new"}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(page)
		}, "", false},
		{"not there", nil, http.NotFound, "all responses are errors: status 404", false},
		{"in chunks", nil, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(page)
			w.(http.Flusher).Flush()
		}, "invalid response: it is chunked", false},
		{"too short", nil, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(page[1:])
		}, "a page of 614 bytes instead of 615", false},
		{"now and then an error", map[string]string{"clients": "1"}, func(w http.ResponseWriter, _ *http.Request) {
			if answered++; answered%10 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			} else {
				_, _ = w.Write(page)
			}
		}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// an external server does not receive the end of a trial
			given := map[string]string{"server": nginx, "clients": "4"}
			maps.Copy(given, tt.given)
			server := &http.Server{Handler: tt.handle, ReadHeaderTimeout: time.Minute}
			defer server.Close()
			r := workloadtest.NewRig(t, elsewhere{serve: func(l net.Listener) { _ = server.Serve(l) }},
				workloadtest.Options{Pairs: 1, Length: 150 * time.Millisecond, Given: given})
			if tt.failure != "" {
				if trial, _ := r.Trial(t); !strings.Contains(trial.Failure(), tt.failure) {
					t.Errorf("the trial failed with %q, want %q", trial.Failure(), tt.failure)
				}
				return
			}
			var result workload.Result
			witness.Until(t, borne(), func() error { // a trial has one doubt, which may be another one on a busy machine
				if _, result = sound(t, r); strings.Contains(strings.Join(result.Warnings, "\n"), "connected anew") {
					return fmt.Errorf("warnings %q", result.Warnings)
				}
				return nil
			})
			if share := result.Metrics["errors"]; tt.errors != (share > 0) || tt.errors && (share < 0.08 || share > 0.12) {
				t.Errorf("%g of the answers are errors: %v", share, result.Warnings)
			}
			if told := strings.Contains(strings.Join(result.Warnings, "\n"),
				"some responses are errors (look for the cause with nettoll lab up): status 503"); told != tt.errors {
				t.Errorf("warnings %q", result.Warnings)
			}
		})
	}
}

// A server that speaks another protocol, or stops in the middle, is named in time.
func TestStrangeServers(t *testing.T) {
	const length = 100 * time.Millisecond
	// If the first answers do not arrive, there are no further requests, and the first ones were sent before the window
	// opened.
	const silent = "no request was sent inside the window"
	for _, tt := range []struct {
		name, says string
		hangUp     bool
		want       string
	}{
		{"another protocol", "220 mail.example.org ESMTP\r\n", false, "invalid response"},
		{
			"half an answer, and the end", "HTTP/1.1 200 OK\r\nContent-Length: 615\r\n\r\nhalf", true,
			"the server closed a connection in the middle of a response",
		},
		{
			"half a head, and the end", "HTTP/1.1 200 OK\r\nContent-Le", true,
			"the server closed a connection in the middle of a response",
		},
		{"half an answer", "HTTP/1.1 200 OK\r\nContent-Length: 615\r\n\r\nhalf", false, silent},
		{"nothing", "", false, silent},
		{"the end", "", true, "the server closed a connection"},
		{"too much", "HTTP/1.1 200 OK\r\nContent-Length: 615\r\n\r\n" + strings.Repeat("x", 700), false, "invalid response"},
		{"an endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*headLimit), false, "invalid response"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serve := func(l net.Listener) {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						buf := make([]byte, 1<<10)
						if _, err := c.Read(buf); err != nil {
							return
						}
						_, _ = io.WriteString(c, tt.says)
						if !tt.hangUp {
							_, _ = io.Copy(io.Discard, c)
						}
					}()
				}
			}
			r := workloadtest.NewRig(t, elsewhere{serve: serve}, workloadtest.Options{
				Pairs: 1, Length: length, Given: map[string]string{"server": nginx, "clients": "2"},
			})
			began := time.Now()
			trial, _ := r.Trial(t)
			if !strings.Contains(trial.Failure(), tt.want) {
				t.Errorf("the trial failed with %q, want %q", trial.Failure(), tt.want)
			}
			if took := time.Since(began); took > length+time.Second {
				t.Errorf("the trial took %v", took)
			}
			t.Log(trial.Failure())
		})
	}
}

// The embedded server answers every client for as long as its trial lasts, with or without a farewell: Go's own client,
// and one that sends many requests without waiting.
func TestGoClient(t *testing.T) {
	const lasts = time.Second
	// As in a worker: nothing of the runtime may wait for the loop, and nothing else for the runtime.
	before, collect := runtime.GOMAXPROCS(2+2), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(collect)
	})
	e, at := openSink(t, map[string]string{"payload": "100KiB"}, netip.MustParseAddr("127.0.0.1"), "")
	watch, done := witness.Begin(t), make(chan time.Duration)
	e.Prepare(1)
	go func() {
		runtime.LockOSThread()
		now := clock.Now()
		e.Run(1, traffic.Window{Open: now, Start: now, Close: now + int64(lasts)})
		done <- time.Duration(clock.Now() - now)
	}()
	client := http.Client{Transport: &http.Transport{}, Timeout: 5 * lasts} // after its trial, the server answers nobody
	for range 10 {
		if got := fetch(t, &client, http.MethodGet, at, pagePath); !bytes.Equal(got, traffic.Payload(100<<10)) {
			t.Errorf("a page of %d bytes, which is not the one", len(got))
		}
	}
	if got := fetch(t, &client, http.MethodHead, at, pagePath); len(got) != 0 {
		t.Errorf("the head has %d bytes of a body", len(got))
	}
	r, err := client.Get("http://" + at.String() + "/elsewhere") //nolint:noctx // the server's time is limited
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != notFound {
		t.Errorf("another page: status %d", r.StatusCode)
	}

	c, err := net.Dial("tcp", at.String()) //nolint:noctx // it takes no time
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * lasts)) // cannot fail for a TCP connection
	const times = 20
	last := fmt.Sprintf("HEAD %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", pagePath, at)
	if _, err := io.WriteString(c, strings.Repeat(string(ask("HEAD", pagePath, at, false)), times-1)+last); err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(c)
	if err != nil || strings.Count(string(answers), "HTTP/1.1 200 OK\r\n") != times {
		t.Errorf("%d requests at once: %q, %v", times, answers, err)
	}
	bad, err := net.Dial("tcp", at.String()) //nolint:noctx // it takes no time
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	_ = bad.SetDeadline(time.Now().Add(5 * lasts))
	if _, err := io.WriteString(bad, "EHLO\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(bad); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 Bad Request\r\n") {
		t.Errorf("another protocol is answered %q, %v", answer, err)
	}
	client.CloseIdleConnections()
	took := <-done
	if seen := watch.Seen(t); took < lasts || took > lasts+10*traffic.DrainLimit+seen.Excuse() {
		t.Errorf("its trial of %v took %v (%v)", lasts, took, seen)
	}
}
