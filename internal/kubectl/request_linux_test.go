package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRequests(t *testing.T) {
	var seen []string
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")+" "+string(body)))
		answer(w, http.StatusOK, map[string]any{"name": strings.Repeat("x", 3<<20)})
	})
	var got struct{ Name string }
	if err := c.Get(t.Context(), "/api/v1/pods?labelSelector=a%3Db", &got); err != nil || len(got.Name) != 3<<20 {
		t.Errorf("got %d bytes, %v", len(got.Name), err)
	}
	got.Name = ""
	if err := c.Create(t.Context(), "/api/v1/namespaces", map[string]any{"kind": "Namespace"}, &got); err != nil || got.Name == "" {
		t.Errorf("got %d bytes, %v", len(got.Name), err)
	}
	if err := c.Create(t.Context(), "/api/v1/namespaces", map[string]any{"kind": "Namespace"}, nil); err != nil {
		t.Error(err)
	}
	for _, options := range []any{nil, map[string]any{"gracePeriodSeconds": 0}} {
		if err := c.Delete(t.Context(), "/api/v1/namespaces/x", options); err != nil {
			t.Error(err)
		}
	}
	if err := c.Change(t.Context(), "/api/v1/namespaces/x", map[string]any{"spec": map[string]any{"a": nil}}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{
		"GET /api/v1/pods?labelSelector=a%3Db",
		`POST /api/v1/namespaces application/json {"kind":"Namespace"}`,
		`POST /api/v1/namespaces application/json {"kind":"Namespace"}`,
		"DELETE /api/v1/namespaces/x",
		`DELETE /api/v1/namespaces/x application/json {"gracePeriodSeconds":0}`,
		`PATCH /api/v1/namespaces/x application/merge-patch+json {"spec":{"a":null}}`,
	}, seen); diff != "" {
		t.Error(diff)
	}
	if err := c.Create(t.Context(), "/x", make(chan int), nil); err == nil || !strings.Contains(err.Error(), "unsupported type") {
		t.Errorf("an object that JSON cannot hold: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for _, want := range []StatusError{
		{Code: 403, Reason: "Forbidden", Message: `pods is forbidden: User "u" cannot list resource "pods"`},
		{Code: 404, Reason: "NotFound", Message: `pods "x" not found`},
		{Code: 409, Reason: "AlreadyExists", Message: `pods "x" already exists`},
		{Code: 422, Reason: "Invalid", Message: `Pod "x" is invalid: spec.containers: Required value`},
	} {
		c := connect(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, want.Code, want.Reason, want.Message) })
		for name, err := range map[string]error{
			"get /x":    c.Get(t.Context(), "/x", nil),
			"create /x": c.Create(t.Context(), "/x", 1, nil),
			"change /x": c.Change(t.Context(), "/x", 1),
			"delete /x": c.Delete(t.Context(), "/x", nil),
			"watch /x?resourceVersion=1": c.Watch(t.Context(), "/x?resourceVersion=1",
				func(string, json.RawMessage) (bool, error) { return true, nil }),
		} {
			got, ok := errors.AsType[*StatusError](err)
			if !ok || *got != want {
				t.Errorf("%v, want %+v", err, want)
			} else if text := fmt.Sprintf("%s: %s (%d %s)", name, want.Message, want.Code, want.Reason); err.Error() != text {
				t.Errorf("got  %s\nwant %s", err, text)
			}
		}
	}
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too early", http.StatusTeapot) })
	if err := c.Get(t.Context(), "/x", nil); err == nil || err.Error() != "get /x: too early (418)" {
		t.Errorf("a refusal that is a text: %v", err)
	}
	c = connect(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Audit-Id", "a")
		http.Error(w, "This request caused apiserver to panic.", http.StatusInternalServerError)
	})
	if err := c.Get(t.Context(), "/x", nil); code(err) != 500 {
		t.Errorf("a text of the API server is taken for one of the proxy: %v", err)
	}
}

// Failures that pass are repeated, and requests that may have been taken are not created again.
func TestRepeat(t *testing.T) {
	refused := func(w http.ResponseWriter) { proxyError(w, "dial tcp 192.0.2.1:6443: connect: connection refused") }
	cut := func(w http.ResponseWriter) { proxyError(w, "unexpected EOF") }
	tls := func(w http.ResponseWriter) { proxyError(w, "tls: failed to verify certificate: x509: no") }
	busy := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
	}
	closing := func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "closing") }
	dead := func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }
	half := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"a`)
	}
	for _, tt := range []struct {
		name                string
		fail                func(http.ResponseWriter)
		get, create, delete bool // it succeeds in the end
		least               time.Duration
	}{
		{"refused", refused, true, true, true, firstPause},
		{"cut", cut, true, false, true, firstPause},
		{"certificate", tls, false, false, false, 0},
		{"busy", busy, true, true, true, time.Second},
		{"closing", closing, true, false, true, firstPause},
		{"dead", dead, true, false, true, 0}, // net/http repeats a request on an old connection
		{"half an answer", half, true, false, true, firstPause},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int32
			c := connect(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 {
					tt.fail(w)
					return
				}
				answer(w, http.StatusOK, map[string]any{})
			})
			try := func(want bool, f func() error) {
				t.Helper()
				asked.Store(0)
				begun := time.Now()
				err := f()
				if (err == nil) != want {
					t.Errorf("got %v, want success: %v", err, want)
				}
				if d := time.Since(begun); want && d < tt.least {
					t.Errorf("repeated after %v, want %v", d, tt.least)
				}
				tries := int32(1)
				if want {
					tries = 2
				}
				if n := asked.Load(); n != tries {
					t.Errorf("tried %d times, want %d", n, tries)
				}
			}
			into := map[string]any{}
			try(tt.get, func() error { return c.Get(t.Context(), "/x", &into) })
			try(tt.create, func() error { return c.Create(t.Context(), "/x", 1, &into) })
			try(tt.delete, func() error { return c.Delete(t.Context(), "/x", nil) })
		})
	}
}

// A deletion whose answer was lost is done when the object is not found. Otherwise that is an error.
func TestDeleteLost(t *testing.T) {
	var asked atomic.Int32
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			proxyError(w, "EOF")
			return
		}
		refuse(w, http.StatusNotFound, "NotFound", "not found")
	})
	if err := c.Delete(t.Context(), "/x", nil); err != nil {
		t.Error(err)
	}
	if err := c.Delete(t.Context(), "/x", nil); code(err) != http.StatusNotFound {
		t.Errorf("got %v", err)
	}
}

func TestRepeatEnds(t *testing.T) {
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		proxyError(w, "dial tcp 192.0.2.1:6443: connect: connection refused")
	})
	begun := time.Now()
	err := c.Get(t.Context(), "/x", nil)
	if u, ok := errors.AsType[*UnreachableError](err); !ok || u.Server != "https://cluster.test:6443" ||
		!strings.Contains(err.Error(), "connection refused (repeated for ") {
		t.Errorf("got %v", err)
	}
	if d := time.Since(begun); d > short().repeat+time.Second {
		t.Errorf("it took %v", d)
	}
	c.limits.repeat = time.Minute // from now on, something else ends it
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	err = c.Get(ctx, "/x", nil)
	if _, ok := errors.AsType[*UnreachableError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want why it was not done in time", err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = c.Close() })
	if err := c.Get(t.Context(), "/x", nil); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

// Close ends what waits for an answer.
func TestCloseEnds(t *testing.T) {
	before := goroutines()
	for name, ask := range map[string]func(*Client) error{
		"get":    func(c *Client) error { return c.Get(t.Context(), "/x", nil) },
		"create": func(c *Client) error { return c.Create(t.Context(), "/x", 1, nil) },
		"exec":   func(c *Client) error { _, err := c.Exec(t.Context(), Target{}); return err },
		"watch": func(c *Client) error {
			return c.Watch(t.Context(), "/x?resourceVersion=1", func(string, json.RawMessage) (bool, error) { return false, nil })
		},
	} {
		for _, begun := range []bool{false, true} { // the answer
			t.Run(fmt.Sprint(name, " ", begun), func(t *testing.T) {
				asked := make(chan struct{}, 1)
				c := connect(t, func(w http.ResponseWriter, r *http.Request) {
					if begun {
						_ = http.NewResponseController(w).Flush()
					}
					_, _ = io.Copy(io.Discard, r.Body) // until then a server does not notice that its client is gone
					asked <- struct{}{}
					<-r.Context().Done()
				})
				got := make(chan error, 1)
				go func() { got <- ask(c) }()
				<-asked
				time.Sleep(10 * time.Millisecond) // until the answer has begun
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				select {
				case err := <-got:
					if err == nil || !begun && !errors.Is(err, errClosed) {
						t.Errorf("got %v", err)
					}
				case <-time.After(5 * time.Second):
					t.Fatal("it waits still")
				}
			})
		}
	}
	soon(t, "the end of all goroutines", func() bool { return goroutines() <= before })
}
