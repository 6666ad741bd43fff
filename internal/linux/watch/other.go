//go:build !linux

package watch

import "github.com/nettoll/nettoll/internal/linux"

// A Watch is what the namespaces of a host share.
type Watch struct{}

// A Namespace is a network namespace that is watched.
type Namespace struct{}

// A Socket is one that hears whoever sends to it.
type Socket struct {
	Name  string
	Inode uint32
	Back  int
}

// An Audit is what was found in a namespace since the last one.
type Audit struct {
	Changes []Change
	New     []Socket
	Lost    bool
}

// Open needs Linux.
func (w *Watch) Open(int, bool) (*Namespace, error) {
	return nil, &linux.UnsupportedError{What: "watch a namespace", Missing: "Linux"}
}

// Missing lists nothing.
func (n *Namespace) Missing() []string { return nil }

// Close does nothing.
func (n *Namespace) Close() {}

// How much an audit looks at.
const (
	Reported = iota
	Usual
	All
)

// Audit finds nothing.
func (n *Namespace) Audit(int) (Audit, error) { return Audit{}, nil }

// IsOpen knows of no socket.
func (n *Namespace) IsOpen(Socket) (bool, error) { return false, nil }

// Listen does nothing.
func (n *Namespace) Listen() error { return nil }
