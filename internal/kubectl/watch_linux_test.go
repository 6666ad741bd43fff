package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func change(kind string, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", kind, version)
}

// A watch goes on from the last version, by whatever its connections end.
func TestWatch(t *testing.T) {
	var asked []string
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("watch") != "true" || q.Get("allowWatchBookmarks") != "true" || q.Get("labelSelector") != "a=b" {
			t.Errorf("asked %s", r.URL)
		}
		asked = append(asked, q.Get("resourceVersion"))
		send := func(texts ...string) {
			_, _ = io.WriteString(w, strings.Join(texts, ""))
			_ = http.NewResponseController(w).Flush()
		}
		switch len(asked) {
		case 1:
			send(change("ADDED", 8), change("MODIFIED", 9))
		case 2:
			send(change("BOOKMARK", 20))
			panic(http.ErrAbortHandler)
		case 3:
			proxyError(w, "dial tcp 192.0.2.1:6443: connect: connection refused")
		case 4:
			send(change("DELETED", 21), change("ADDED", 22)[:20]) // cut in the middle
			panic(http.ErrAbortHandler)
		case 5:
			send(`{"type":"ERROR","object":{"kind":"Status","code":503,"message":"closing"}}`)
		default:
			send(change("ADDED", 22))
			<-r.Context().Done()
		}
	})
	var seen []string
	err := c.Watch(t.Context(), "/x?labelSelector=a%3Db&resourceVersion=7", func(kind string, object json.RawMessage) (bool, error) {
		v, err := version(object)
		seen = append(seen, kind+" "+v)
		return v == "22", err
	})
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"ADDED 8", "MODIFIED 9", "DELETED 21", "ADDED 22"}, seen); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"7", "9", "20", "20", "21", "21"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestWatchEnds(t *testing.T) {
	own := errors.New("own")
	for _, tt := range []struct {
		name, path, sends string
		see               error
		want              string
		is                error
	}{
		{
			"gone", "", `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`, nil,
			"watch /x?resourceVersion=1: the API server no longer knows this version: list again: too old (410 Expired)", ErrGone,
		},
		{
			"refused", "", `{"type":"ERROR","object":{"kind":"Status","code":500,"message":"broken"}}`, nil,
			"watch /x?resourceVersion=1: broken (500)", nil,
		},
		{"own error", "", change("ADDED", 2), own, "own", own},
		{"no JSON", "", "no", nil, "watch /x?resourceVersion=1: a change that the API server sent: invalid character", nil},
		{"no object", "", `{"type":"ADDED","object":7}`, nil, "a change that the API server sent: json: cannot unmarshal", nil},
		{"no version", "/x", "", nil, `watch /x: invalid resourceVersion "" (valid: that of a list)`, nil},
		{"version 0", "/x?resourceVersion=0", "", nil, `invalid resourceVersion "0"`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.sends) })
			path := tt.path
			if path == "" {
				path = "/x?resourceVersion=1"
			}
			err := c.Watch(t.Context(), path, func(string, json.RawMessage) (bool, error) { return false, tt.see })
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	t.Run("gone at once", func(t *testing.T) {
		c := connect(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusGone, "Expired", "too old") })
		err := c.Watch(t.Context(), "/x?resourceVersion=1", func(string, json.RawMessage) (bool, error) { return false, nil })
		if !errors.Is(err, ErrGone) || code(err) != http.StatusGone {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		c := connect(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		err := c.Watch(ctx, "/x?resourceVersion=1", func(string, json.RawMessage) (bool, error) { return false, nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// Whatever the server sends, a watch ends with an error or goes on, and see gets objects only.
func FuzzChanges(f *testing.F) {
	f.Add([]byte(change("ADDED", 1) + change("BOOKMARK", 2)))
	f.Add([]byte(`{"type":"ERROR","object":{"kind":"Status","code":410}}`))
	f.Add([]byte(`{"type":"ADDED"}`))
	f.Fuzz(func(t *testing.T, sent []byte) {
		w := watcher{since: "1", see: func(_ string, object json.RawMessage) (bool, error) {
			if _, err := version(object); err != nil {
				t.Errorf("see gets %q: %v", object, err)
			}
			return false, nil
		}}
		_ = w.follow(&http.Response{Body: io.NopCloser(strings.NewReader(string(sent)))})
		if w.since == "" || w.seen {
			t.Errorf("since %q, seen %v", w.since, w.seen)
		}
	})
}
