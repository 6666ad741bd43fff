//go:build !linux

package sock

import "syscall"

// WaitForOne means nothing here.
const WaitForOne = 0

// A Batch is nothing here.
type Batch struct{}

// NewBatch makes a batch of nothing.
func NewBatch([]byte, int, int) *Batch { return &Batch{} }

// NewRecvBatch makes a batch of nothing.
func NewRecvBatch(int, int, bool) *Batch { return &Batch{} }

// Message returns nothing.
func (*Batch) Message(int) []byte { return nil }

// Segment returns 0.
func (*Batch) Segment(int) int { return 0 }

// From returns nowhere.
func (*Batch) From(int) *Address { return &Address{} }

// SetLen does nothing here.
func (*Batch) SetLen(int, int) {}

// SendBatch is not supported here.
func (Socket) SendBatch(*Batch, int, int) (int, Errno) { return 0, syscall.ENOTSUP }

// RecvBatch is not supported here.
func (Socket) RecvBatch(*Batch, int) (int, Errno) { return 0, syscall.ENOTSUP }

// RecvFrom is not supported here.
func (Socket) RecvFrom(*byte, int, int, *Address) (int, Errno) { return -1, syscall.ENOTSUP }

// SendTo is not supported here.
func (Socket) SendTo(*byte, int, int, *Address) (int, Errno) { return -1, syscall.ENOTSUP }

// Drops knows nothing here.
func (Socket) Drops() (int64, bool) { return 0, false }

// SetSegment is not supported here.
func (Socket) SetSegment(int) error { return unsupported("send segments") }

// SetCoalesce is not supported here.
func (Socket) SetCoalesce() error { return unsupported("receive segments") }
