//go:build !linux

package process

import (
	"net"
	"os"
	"os/exec"
	"syscall"
)

// Detach is not supported here.
func Detach(*exec.Cmd) error { return unsupported("start process") }

// Namespaces do not exist here.
type Namespaces struct{ Mount, PID, UTS, IPC, Net *os.File }

// OpenNamespaces is not supported here.
func OpenNamespaces(int) (*Namespaces, error) { return nil, unsupported("open namespaces") }

// Close does nothing here.
func (*Namespaces) Close() {}

// RunInside is not supported here.
func RunInside(*exec.Cmd, *Namespaces, bool, func(*os.Process)) error {
	return unsupported("enter namespaces")
}

// SignalGroup is not supported here.
func SignalGroup(*os.Process, syscall.Signal) error { return unsupported("signal process group") }

// A Terminal is not made here.
type Terminal struct{ *os.File }

// NewTerminal is not supported here.
func NewTerminal() (*Terminal, *os.File, error) { return nil, nil, unsupported("make terminal") }

// Follow does nothing here.
func (*Terminal) Follow(*os.File) func() { return func() {} }

// Hand is not supported here.
func Hand(*net.UnixConn, ...*os.File) error { return unsupported("hand over files") }

// Taken is not supported here.
func Taken(*net.UnixConn, int) ([]*os.File, error) { return nil, unsupported("take over files") }

// Lock is not supported here.
func Lock(*os.File) (bool, error) { return false, unsupported("lock file") }

// PeerProcess is not known here.
func PeerProcess(*net.UnixConn) (int, error) {
	return 0, unsupported("ask who is at the other end of a socket")
}

// PeerUser is not known here.
func PeerUser(*net.UnixConn) (int, error) {
	return 0, unsupported("ask who is at the other end of a socket")
}
