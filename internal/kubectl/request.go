package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Pauses between two tries of a request: the first one, and the longest one.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// Get reads an object or a list, such as "/api/v1/namespaces/x/pods", into a value that encoding/json takes.
//
// A request fails with a [StatusError] if the server refuses it, and with an [UnreachableError] if the server cannot
// be reached. While the server is restarted or overloaded (429, 503), a request is repeated for at most 30 seconds.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.request(ctx, http.MethodGet, path, nil, into)
}

// Create creates an object in a collection, such as "/api/v1/namespaces/x/pods", and reads it as it was created; into
// may be nil. It is repeated like [Client.Get], but only if the server has certainly not taken the request.
func (c *Client) Create(ctx context.Context, path string, object, into any) error {
	return c.request(ctx, http.MethodPost, path, object, into)
}

// Change changes fields of an object, such as "/api/v1/namespaces/x/pods/y", as a JSON merge patch does (RFC 7396):
// null removes one. It is repeated like [Client.Get].
func (c *Client) Change(ctx context.Context, path string, fields any) error {
	return c.request(ctx, http.MethodPatch, path, fields, nil)
}

// Delete deletes an object, such as "/api/v1/namespaces/x/pods/y". Options are those of the API (DeleteOptions); nil
// for none. It is repeated like [Client.Get]: if a repetition does not find the object, it has been deleted.
func (c *Client) Delete(ctx context.Context, path string, options any) error {
	return c.request(ctx, http.MethodDelete, path, options, nil)
}

// request makes a request, and repeats it if that may help.
func (c *Client) request(ctx context.Context, method, path string, object, into any) error {
	var body []byte
	if object != nil {
		var err error
		if body, err = json.Marshal(object); err != nil {
			return fmt.Errorf("%s %s: %w", verb(method), path, err)
		}
	}
	taken := false // by the server, perhaps, in an earlier try
	err := c.persist(ctx, func() (bool, time.Duration, error) {
		err := c.once(ctx, method, path, body, into)
		if method == http.MethodDelete && taken && code(err) == http.StatusNotFound {
			return false, 0, nil
		}
		again, pause := transient(method, err)
		if u, ok := errors.AsType[*UnreachableError](err); ok && u.sent {
			taken = true
		}
		return again, pause, err
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb(method), path, err)
	}
	return nil
}

// persist calls try until it succeeds or says that another try does not help. Try also returns the least pause. If the
// context ends, the error has that of the last try which ended before.
func (c *Client) persist(ctx context.Context, try func() (again bool, pause time.Duration, err error)) error {
	begun := time.Now()
	var before error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		again, least, err := try()
		if before != nil && err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return fmt.Errorf("%w; the last try: %w", err, before)
		}
		if err == nil || !again {
			return err
		}
		before = err
		wait := max(pause, least)
		if time.Since(begun)+wait > c.limits.repeat {
			return fmt.Errorf("%w (repeated for %v)", err, time.Since(begun).Round(time.Second/10))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last try: %w", ctx.Err(), err)
		case <-c.life.Done():
			return errClosed
		case <-time.After(wait):
		}
	}
}

// transient reports whether a request that failed may be repeated, and how long the server asks to wait.
func transient(method string, err error) (again bool, pause time.Duration) {
	if u, ok := errors.AsType[*UnreachableError](err); ok {
		return !u.last && (!u.sent || method != http.MethodPost), 0
	}
	if s, ok := errors.AsType[*StatusError](err); ok {
		switch s.Code {
		case http.StatusTooManyRequests: // it was not looked at
			return true, s.RetryAfter
		case http.StatusServiceUnavailable:
			return method != http.MethodPost, s.RetryAfter
		}
	}
	return false, 0
}

// code returns the status of a refusal; 0 for another error.
func code(err error) int {
	if s, ok := errors.AsType[*StatusError](err); ok {
		return s.Code
	}
	return 0
}

// verb is what a method does, in a word of this package.
func verb(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPatch:
		return "change"
	case http.MethodDelete:
		return "delete"
	}
	return "get"
}

// once makes a request once.
func (c *Client) once(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if into == nil {
		_, err = io.Copy(io.Discard, r.Body)
	} else {
		err = json.NewDecoder(r.Body).Decode(into)
	}
	if err == nil {
		_, _ = io.CopyN(io.Discard, r.Body, 2) // a line's end and the body's: the connection can be used again
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if malformed(err) {
		return fmt.Errorf("the answer of the API server: %w", err)
	}
	return c.lost(err)
}

// malformed reports whether an answer came, but is not what was expected.
func malformed(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || kind
}

// lost is an error of the connection to the proxy: it ends if the proxy ends, or if the proxy's own connection ends.
func (c *Client) lost(err error) error {
	if gone := c.gone(); gone != nil {
		return gone
	}
	return &UnreachableError{Server: c.server, Why: err.Error(), sent: true}
}

// send sends a request, and returns a response that is a success. The caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	switch {
	case method == http.MethodPatch:
		r.Header.Set("Content-Type", "application/merge-patch+json")
	case len(body) > 0:
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.lost(err)
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, c.refusal(response)
	}
	return response, nil
}
