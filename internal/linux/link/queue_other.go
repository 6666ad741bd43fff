//go:build !linux

package link

// Queue is not supported here.
func (*Handle) Queue(int) (Queue, error) { return Queue{}, unsupported() }

// SetQueue is not supported here.
func (*Handle) SetQueue(_, _ int) error { return unsupported() }

// PutQueue is not supported here.
func (*Handle) PutQueue(int, Queue) error { return unsupported() }
