package process

import (
	"os"
	"syscall"
)

// ExitStatus returns the exit status of a process that has ended, as a shell would: 128 plus the number of the signal
// if a signal ended it.
func ExitStatus(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}
