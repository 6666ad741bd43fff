package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// ErrGone is the error of [Client.Watch] if the API server no longer knows the version to go on from. The caller lists
// the objects again and watches from the version of the list.
var ErrGone = errors.New("the API server no longer knows this version: list again")

// Watch calls see with each change of the objects of a collection, such as
// "/api/v1/namespaces/x/pods?resourceVersion=7&labelSelector=app=y", until see returns true or an error, or the
// context ends. Kind is "ADDED", "MODIFIED" or "DELETED". It begins behind the resourceVersion of the path, which is
// that of a list.
//
// It goes on from the last version after the connection was lost or the server ended it, so see sees each change once.
// If the server has forgotten the version, the error is [ErrGone]. A server that cannot be reached is tried again as
// in [Client.Get].
func (c *Client) Watch(ctx context.Context, path string,
	see func(kind string, object json.RawMessage) (done bool, err error),
) error {
	w := watcher{client: c, see: see}
	err := w.watch(ctx, path)
	if err != nil && !w.seen { // an error of see is the caller's own
		return fmt.Errorf("watch %s: %w", path, err)
	}
	return err
}

type watcher struct {
	client *Client
	see    func(kind string, object json.RawMessage) (done bool, err error)
	since  string // the last version
	seen   bool   // see has returned true or an error
}

func (w *watcher) watch(ctx context.Context, path string) error {
	at, err := url.Parse(path)
	if err != nil {
		return err
	}
	query := at.Query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	w.since = query.Get("resourceVersion")
	if w.since == "" || w.since == "0" { // the server would begin with all objects, in no order that can be gone on from
		return fmt.Errorf("invalid resourceVersion %q (valid: that of a list)", w.since)
	}
	for !w.seen {
		query.Set("resourceVersion", w.since)
		at.RawQuery = query.Encode()
		var stream *http.Response
		err := w.client.persist(ctx, func() (again bool, pause time.Duration, err error) {
			stream, err = w.client.send(ctx, http.MethodGet, at.String(), nil)
			again, pause = transient(http.MethodGet, err)
			return again, pause, err
		})
		if err == nil {
			err = w.follow(stream)
		}
		switch {
		case w.seen:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case code(err) == http.StatusGone:
			return fmt.Errorf("%w: %w", ErrGone, err)
		case err != nil:
			return err
		}
		select { // the server may end it at once, again and again
		case <-ctx.Done():
		case <-time.After(firstPause):
		}
	}
	return nil
}

// event is a change as the server sends it (WatchEvent, k8s.io/apimachinery/pkg/apis/meta/v1).
type event struct {
	Type   string
	Object json.RawMessage
}

// version returns the version of an object.
func version(object json.RawMessage) (string, error) {
	var o struct {
		Metadata struct{ ResourceVersion string }
	}
	err := json.Unmarshal(object, &o)
	return o.Metadata.ResourceVersion, err
}

// follow reads changes until see is done or the connection ends. The end of the connection is not an error.
func (w *watcher) follow(stream *http.Response) error {
	defer stream.Body.Close()
	changes := json.NewDecoder(stream.Body)
	for {
		var e event
		if err := changes.Decode(&e); malformed(err) {
			return fmt.Errorf("a change that the API server sent: %w", err)
		} else if err != nil {
			return nil
		}
		if e.Type == "ERROR" {
			var s status
			if err := json.Unmarshal(e.Object, &s); err != nil {
				return fmt.Errorf("an error that the API server sent: %w", err)
			}
			err := s.err(http.StatusInternalServerError)
			if again, _ := transient(http.MethodGet, err); again {
				return nil
			}
			return err
		}
		since, err := version(e.Object)
		if err != nil {
			return fmt.Errorf("a change that the API server sent: %w", err)
		}
		if e.Type != "BOOKMARK" {
			if w.seen, err = w.see(e.Type, e.Object); w.seen || err != nil {
				w.seen = true
				return err
			}
		}
		if since != "" {
			w.since = since
		}
	}
}
