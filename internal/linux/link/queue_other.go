//go:build !linux

package link

// Queue is not supported here.
func (*Handle) Queue(int) (Queue, error) { return Queue{}, unsupported() }

// SetQueue is not supported here.
func (*Handle) SetQueue(_, _ int) error { return unsupported() }

// PutQueue is not supported here.
func (*Handle) PutQueue(int, Queue) error { return unsupported() }

// SetShape is not supported here.
func (*Handle) SetShape(int, Shape) error { return unsupported() }

// CompareShape is not supported here.
func (*Handle) CompareShape(int, Shape) (want, got string, err error) { return "", "", unsupported() }

// CheckShape is not supported here.
func CheckShape(Shape) error { return unsupported() }
