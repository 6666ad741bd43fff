package futex

import "errors"

// ErrTimeout is what Wait returns when the time ran out before anybody woke the word.
var ErrTimeout = errors.New("futex wait timed out")
