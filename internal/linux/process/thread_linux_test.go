package process

import (
	"fmt"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onThread, called on the first thread, calls f on another thread, which ends. Only in a new process is it known which
// goroutine is on the first thread.
func TestOnThread(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", "first-thread").CombinedOutput()
	if err != nil || string(out) != "on another thread, which has ended\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// firstThread starts work on the first thread, where the main goroutine is, and returns the result.
func firstThread() string {
	runtime.LockOSThread()
	if id := unix.Gettid(); id != unix.Getpid() {
		return fmt.Sprintf("the main goroutine is on thread %d of process %d", id, unix.Getpid())
	}
	var id int
	onThread(func() { id = unix.Gettid() })
	if id == unix.Getpid() {
		return "on the first thread"
	}
	for begin := time.Now(); unix.Tgkill(unix.Getpid(), id, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			return "on another thread, which has not ended"
		}
	}
	return "on another thread, which has ended"
}
