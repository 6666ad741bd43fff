//go:build !linux

package process

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported(what string) error {
	return &linux.UnsupportedError{What: what, Missing: "Linux", Hint: "hosts on this machine exist only there"}
}

// Options describe how a process is started.
type Options struct {
	CPUs       []int
	Namespaces bool
	User       bool
	Group      bool
	Session    bool
}

// Start is not supported here.
func Start(*exec.Cmd, Options) error { return unsupported("start process") }

// StartIn is not supported here.
func StartIn(*exec.Cmd, Options, func(func() error) error) error { return unsupported("start process") }

// Control is not supported here.
func Control() (net.Conn, *os.File, error) { return nil, nil, unsupported("control a process") }

// RunHere is not supported here.
func RunHere(*exec.Cmd, Options) error { return unsupported("start process") }

// End is not supported here.
func End(int, bool) error { return unsupported("end process") }

// KillGroup is not supported here.
func KillGroup(*exec.Cmd) error { return unsupported("kill process group") }

// RunTime is not known here.
func RunTime(int) time.Duration { return 0 }

// Affinity is not supported here.
func Affinity(int) ([]int, error) { return nil, unsupported("read affinity") }

// SetAffinity is not supported here.
func SetAffinity(int, []int) error { return unsupported("set affinity") }

// SetOwnAffinity is not supported here.
func SetOwnAffinity([]int) error { return unsupported("set affinity") }

// RunTimeIn is 0 here.
func RunTimeIn(*os.File, int) time.Duration { return 0 }

// Pass does nothing here: the process will not start.
func Pass(*exec.Cmd, map[string]*os.File) {}

// Inherited is not supported here.
func Inherited([]string) (map[string]*os.File, error) { return nil, unsupported("inherit files") }

// Handed is not supported here.
func Handed(string, []string) (in, out *os.File, files map[string]*os.File, err error) {
	return nil, nil, nil, unsupported("take files")
}

// LimitMemory is not supported here.
func LimitMemory(int64) error { return unsupported("limit memory") }

// Forgets is not supported here.
func Forgets() (bool, error) { return false, unsupported("see how a process has ended") }

// Await is not supported here.
func Await(int) (<-chan struct{}, func() string, error) {
	return nil, nil, unsupported("watch a process")
}

// Isolate is not supported here.
func Isolate(string, bool) error { return unsupported("make namespaces a host") }

// A Node is a machine of a cluster.
type Node struct {
	Hostname, Cgroup string
	Binds            []Bind
	Settings         []string
}

// A Bind is a mount of a file or directory at another place.
type Bind struct{ From, To string }

// Become is not supported here.
func (Node) Become() error { return unsupported("make namespaces a node") }

// Supervise is not supported here.
func Supervise(string, []string, []string) (int, error) { return 0, unsupported("supervise a process") }

// Linger is not supported here.
func Linger(context.Context, time.Duration, time.Duration) error {
	return unsupported("linger in a container")
}

// A Child does not exist here.
type Child struct{}

// Spawn is not supported here.
func Spawn(string, []string, []string, ...*os.File) (*Child, error) {
	return nil, unsupported("start process")
}

// Memory is not supported here.
func Memory(string) (*os.File, error) { return nil, unsupported("make a file in memory") }

// PID is 0 here.
func (*Child) PID() int { return 0 }

// Wait does not wait here.
func (*Child) Wait(int64) bool { return true }

// Streams has none here.
func (*Child) Streams(map[string]bool) ([]int, error) { return nil, unsupported("copy sockets") }

// Listening has none here.
func (*Child) Listening() ([]int, error) { return nil, unsupported("copy sockets") }

// Signal does nothing here.
func (*Child) Signal(syscall.Signal) {}

// Usage is nothing here.
func (*Child) Usage() Usage { return Usage{} }

// End is not supported here.
func (*Child) End() string { return "not supported here" }

// Killed is false here.
func (*Child) Killed() bool { return false }

// Stdout is empty here.
func (*Child) Stdout() io.Reader { return strings.NewReader("") }

// Stderr is empty here.
func (*Child) Stderr() io.Reader { return strings.NewReader("") }

// Close does nothing here.
func (*Child) Close() error { return nil }

func mostFiles() uint64 { return 0 }
