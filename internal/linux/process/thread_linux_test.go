package process

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What may not be done on the first thread is done on another one, wherever it is begun, and that one ends.
func TestOnThread(t *testing.T) {
	first := false
	for begin := time.Now(); !first && time.Since(begin) < 5*time.Second; {
		ran := make(chan int, 1)
		ended := make(chan bool)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if first = unix.Gettid() == unix.Getpid(); first {
				onThread(func() { ran <- unix.Gettid() })
			}
			ended <- first
		}()
		if !<-ended {
			runtime.Gosched()
			continue
		}
		id := <-ran
		if id == unix.Getpid() {
			t.Fatal("it ran on the first thread")
		}
		for begin := time.Now(); unix.Tgkill(unix.Getpid(), id, 0) == nil; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 5*time.Second {
				t.Fatal("its thread has not ended")
			}
		}
	}
	if !first {
		t.Log("no goroutine was on the first thread")
	}
}
