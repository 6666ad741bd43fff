package sock_test

import (
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// Messages after the error from an ICMP message are also taken.
func TestDrain(t *testing.T) {
	far, near := pair(t)
	at, err := far.Local()
	if err != nil {
		t.Fatal(err)
	}
	from, err := near.Local()
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	b := fill(64)
	if _, errno := near.Send(&b[0], len(b), 0); errno != 0 {
		t.Fatal(errno)
	}
	again, err := sock.UDP(at, from)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for range 3 {
		if _, errno := again.Send(&b[0], len(b), 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	near.WaitRecv(int64(time.Second))
	if got := near.Drain(); got != 3 {
		t.Errorf("%d messages, want 3", got)
	}
	if _, errno := near.Recv(&b[0], len(b), sock.DontWait); errno != sock.Again {
		t.Errorf("then: %v, want nothing and no error", errno)
	}
}
