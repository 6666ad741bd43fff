//go:build !linux

package sock

// Watcher waits for nothing here.
type Watcher struct{}

// NewWatcher is not supported here.
func NewWatcher() (*Watcher, error) { return nil, unsupported("wait for sockets") }

// Add is not supported here.
func (*Watcher) Add(int, Socket, bool) error { return unsupported("wait for sockets") }

// Output does nothing here.
func (*Watcher) Output(int, Socket, bool) {}

// Forget does nothing here.
func (*Watcher) Forget(Socket) {}

// Wait finds nothing here.
func (*Watcher) Wait(int64) int { return 0 }

// Event reports that nothing is ready.
func (*Watcher) Event(int) (number int, read, write bool) { return 0, false, false }

// Close does nothing here.
func (*Watcher) Close() {}
