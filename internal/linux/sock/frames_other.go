//go:build !linux

package sock

import (
	"os"
	"syscall"
	"time"
)

// Frames is not supported here.
func Frames(int) (*os.File, error) { return nil, unsupported("open a packet socket") }

// FramesOut is not supported here.
func FramesOut(int) (*os.File, error) { return nil, unsupported("open a packet socket") }

// Promiscuous is not supported here.
func Promiscuous(*os.File, int, bool) error { return unsupported("listen to all frames") }

// Unmarked is not supported here.
func Unmarked(*os.File, uint32) error { return unsupported("filter frames") }

// Unsummed is not supported here.
func Unsummed(syscall.Conn) error { return unsupported("send without checksums") }

// Missed is not supported here.
func Missed(*os.File) (int, error) { return 0, unsupported("read a packet socket") }

// Stamp is not supported here.
func Stamp(*os.File) error { return unsupported("stamp frames") }

// ReadStamped is not supported here.
func ReadStamped(*os.File, []byte) (int, time.Time, error) {
	return 0, time.Time{}, unsupported("read a packet socket")
}

// TakeStamped is not supported here.
func TakeStamped(*os.File, []byte) (int, time.Time, error) {
	return 0, time.Time{}, unsupported("read a packet socket")
}

// PacketQueues is not supported here.
func PacketQueues() (waiting, dropped uint64, err error) {
	return 0, 0, unsupported("list packet sockets")
}

// ReceiveQueue is not supported here.
func ReceiveQueue(syscall.Conn) (waiting, dropped uint64, err error) {
	return 0, 0, unsupported("read the receive buffer of a socket")
}
