package kubectl

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A StatusError is a refusal of the API server.
type StatusError struct {
	// Code is the HTTP status: 401 and 403 for missing rights, 404, 409 for a conflict, 422 for an invalid object.
	Code int
	// Reason is a word for programs, such as "Forbidden" or "AlreadyExists"; "" if the server gave none.
	Reason string
	// Message is the server's sentence. For 403 it names the missing right.
	Message string
	// RetryAfter is how long the server asks to wait; 0 if it does not.
	RetryAfter time.Duration
}

// Error returns the server's sentence with the code and the reason.
func (e *StatusError) Error() string {
	what := strings.TrimSpace(strconv.Itoa(e.Code) + " " + e.Reason)
	if e.Message == "" {
		return what
	}
	return e.Message + " (" + what + ")"
}

// An UnreachableError reports that kubectl could not reach the API server, or lost it before the answer.
type UnreachableError struct {
	// Server is the URL of the API server.
	Server string
	// Why is the reason in the words of kubectl.
	Why string

	sent bool // the request may have reached the server
	last bool // another try does not help
}

// Error names the server and the reason.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach the API server %s: %s", e.Server, e.Why)
}

// status is what this package reads of a Status object (k8s.io/apimachinery/pkg/apis/meta/v1).
type status struct {
	Kind    string
	Status  string
	Message string
	Reason  string
	Code    int
	Details struct {
		Causes            []struct{ Reason, Message string }
		RetryAfterSeconds int
	}
}

// err is a refusal as an error. Code is that of the response, if the status has none.
func (s *status) err(code int) *StatusError {
	if s.Code != 0 {
		code = s.Code
	}
	return &StatusError{
		Code: code, Reason: s.Reason, Message: s.Message,
		RetryAfter: time.Duration(max(0, s.Details.RetryAfterSeconds)) * time.Second,
	}
}

// mostRefusal is how many bytes of a refusal are read: a status has some hundreds, or some thousands for an invalid
// object.
const mostRefusal = 1 << 20

// refusal is the error of a response that is not a success. It reads the body.
func (c *Client) refusal(r *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(r.Body, mostRefusal)) // a part of it is enough to say something
	var s status
	after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
	if json.Unmarshal(body, &s) == nil && s.Kind == "Status" {
		err := s.err(r.StatusCode)
		if after > 0 {
			err.RetryAfter = time.Duration(after) * time.Second
		}
		return err
	}
	text := strings.TrimSpace(string(body))
	// The API server marks its answers (WithAuditInit, k8s.io/apiserver/pkg/endpoints/filters). The proxy answers 500,
	// with a line that says what became of its own request (responder.Error, k8s.io/kubectl/pkg/proxy).
	if r.StatusCode == http.StatusInternalServerError && r.Header.Get("Audit-Id") == "" &&
		strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		return c.unreachable(text)
	}
	return &StatusError{
		Code: r.StatusCode, Message: text, RetryAfter: time.Duration(max(0, after)) * time.Second,
	}
}

// unreachable sorts what the proxy says of a request that failed.
func (c *Client) unreachable(why string) *UnreachableError {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(why, p) {
				return true
			}
		}
		return false
	}
	e := &UnreachableError{Server: c.server, Why: why}
	// Errors of net, crypto/tls and k8s.io/client-go/plugin/pkg/client/auth/exec before anything is sent. Certificates
	// and credentials do not become right by waiting.
	e.last = has("x509: ", "tls: ", "getting credentials: ")
	e.sent = !e.last && !has("dial tcp ", "dial tcp4 ", "dial tcp6 ", "TLS handshake timeout", "proxyconnect tcp: ")
	return e
}
