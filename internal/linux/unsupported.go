package linux

import (
	"errors"
	"strings"
)

// An UnsupportedError reports that something is not possible here: on this kernel, with these privileges, on this
// system. errors.Is treats it as errors.ErrUnsupported.
type UnsupportedError struct {
	// What is what was tried: `create link "br0" of type "bridge"`.
	What string
	// Missing is what is missing: `link type "bridge"`, "CAP_NET_ADMIN". It is short and stable: tests may skip by it.
	Missing string
	// Hint says what would help; "" if nothing is known.
	Hint string
	// Err is the cause; nil if there is none.
	Err error
}

// Error returns what was tried, what is missing and what would help.
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

// Is reports whether target is errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// Unwrap returns the cause.
func (e *UnsupportedError) Unwrap() error { return e.Err }
