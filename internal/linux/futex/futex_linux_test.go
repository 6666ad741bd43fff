package futex

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

func TestWaitAndWake(t *testing.T) {
	var word uint32
	if err := Wait(&word, 1, 0); err != nil { // the word differs: it does not wait
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		var err error
		for err == nil && atomic.LoadUint32(&word) == 0 {
			err = Wait(&word, 0, 10*time.Second)
		}
		done <- err
	}()
	atomic.StoreUint32(&word, 1)
	Wake(&word, 1)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTimeout(t *testing.T) {
	var word uint32
	if err := Wait(&word, 0, time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Errorf("Wait: %v, want ErrTimeout", err)
	}
	start := clock.Now()
	var err error
	for err == nil { // a signal of the Go scheduler ends a wait early, without an error
		err = WaitUntil(&word, 0, start+int64(5*time.Millisecond))
	}
	if !errors.Is(err, ErrTimeout) || clock.Now()-start < int64(5*time.Millisecond) {
		t.Errorf("WaitUntil: %v after %d ns, want ErrTimeout after 5 ms", err, clock.Now()-start)
	}
}
