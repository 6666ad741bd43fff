//go:build !linux

package sock

// Several waits for nothing here.
type Several struct{}

// NewSeveral is not supported here.
func NewSeveral([]Socket) (Several, error) { return Several{}, unsupported("wait for several sockets") }

// Next says that none has anything.
func (Several) Next() int { return -1 }

// Wait does nothing here.
func (Several) Wait(int64) {}

// Close does nothing here.
func (Several) Close() {}
