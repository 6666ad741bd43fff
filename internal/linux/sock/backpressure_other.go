//go:build !linux

package sock

import "syscall"

// Connected is never returned here.
const Connected = syscall.EISCONN

// OnlyOutput does nothing here.
func (*Watcher) OnlyOutput(int, Socket) {}

// NeverBlock does nothing here.
func (*Maker) NeverBlock() {}
