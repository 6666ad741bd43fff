//go:build !linux

package sock

import "syscall"

// SetStamps is not supported here.
func (Socket) SetStamps() error { return unsupported("ask for timestamps") }

// RecvStamped is not supported here.
func (Socket) RecvStamped(*byte, int, int, *int64) (int, Errno) { return -1, syscall.ENOTSUP }

// Departed knows nothing here.
func (Socket) Departed(int64) int64 { return 0 }
