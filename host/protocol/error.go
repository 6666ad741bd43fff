package protocol

import (
	"encoding/json"
	"errors"

	"github.com/creachadair/jrpc2"

	"github.com/nettoll/nettoll/internal/linux"
)

// ErrEnded means that the connection ended before the answer came.
var ErrEnded = errors.New("the connection ended")

// codeUnsupported marks an error that carries a linux.UnsupportedError as data.
const codeUnsupported = 1

// An Error is the error that the peer's handler returned instead of a result. A handler that returns an Error decides
// about code and data itself. A [linux.UnsupportedError] of the handler is also one here.
type Error struct {
	// Code is 0 unless the handler set it; users of the protocol use codes from 100.
	Code int
	// Message is the text of the handler's error.
	Message string
	// Data is JSON, nil if there is none.
	Data json.RawMessage
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the handler's typed error; nil if the protocol does not know its type.
func (e *Error) Unwrap() error {
	if e.Code != codeUnsupported {
		return nil
	}
	var d unsupported
	_ = json.Unmarshal(e.Data, &d) // without data it still is unsupported
	return &linux.UnsupportedError{What: d.What, Missing: d.Missing, Hint: d.Hint}
}

// unsupported is a linux.UnsupportedError as data.
type unsupported struct {
	What    string `json:"what"`
	Missing string `json:"missing,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// encodeError converts an error into an answer.
func encodeError(err error) error {
	e := &jrpc2.Error{Code: jrpc2.SystemError, Message: err.Error()}
	if coded, ok := errors.AsType[*Error](err); ok && coded.Code != 0 {
		e.Code, e.Data = jrpc2.Code(coded.Code), coded.Data
	} else if u, ok := errors.AsType[*linux.UnsupportedError](err); ok {
		e = (&jrpc2.Error{Code: codeUnsupported, Message: e.Message}).WithData(unsupported{u.What, u.Missing, u.Hint})
	} else if errors.Is(err, errors.ErrUnsupported) {
		e.Code = codeUnsupported
	}
	return e
}

// decodeError converts an answer into an error.
func decodeError(e *jrpc2.Error) error {
	d := &Error{Code: int(e.Code), Message: e.Message, Data: e.Data}
	if e.Code == jrpc2.SystemError {
		d.Code = 0
	}
	return d
}
