package futex

import "errors"

// ErrTimeout is the error of Wait if the time ran out before the word was woken.
var ErrTimeout = errors.New("futex wait timed out")
