package linux

import (
	"errors"
	"strings"
)

// An UnsupportedError says that something cannot work here: on this kernel, with these privileges, on this system.
// It is errors.ErrUnsupported to errors.Is.
type UnsupportedError struct {
	// What was tried: `create link "br0" of type "bridge"`.
	What string
	// Missing is what is not there: `link type "bridge"`, "CAP_NET_ADMIN". Short and stable: tests are
	// allowed to skip by it.
	Missing string
	// Hint says what would help, "" if nothing is known to.
	Hint string
	// Err is the cause, nil if there is none.
	Err error
}

// Error says what was tried, what is missing and what would help.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	b.WriteString(": not supported here")
	if e.Missing != "" {
		b.WriteString(": missing ")
		b.WriteString(e.Missing)
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString(" (hint: ")
		b.WriteString(e.Hint)
		b.WriteByte(')')
	}
	return b.String()
}

// Is makes the error errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// Unwrap returns the cause.
func (e *UnsupportedError) Unwrap() error { return e.Err }
