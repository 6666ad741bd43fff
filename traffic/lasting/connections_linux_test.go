package lasting

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// Both ends keep their connections until one end drops them, and then get new ones. A connection of an abandoned
// attempt is skipped.
func TestConnections(t *testing.T) {
	made := func() *Connections {
		c, err := New(2)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return &c
	}
	source, sink := made(), made()
	if source.Stand() || sink.Stand() {
		t.Fatal("connections stand that were not made")
	}
	anywhere := netip.MustParseAddrPort("127.0.0.1:0")
	listener, err := sink.Listen(anywhere, sock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { listener.Close() }()
	at, err := listener.Local()
	if err != nil {
		t.Fatal(err)
	}
	ready := func(s sock.Socket) error { return s.SetTimeout(8 * time.Millisecond) }
	dial := func() {
		t.Helper()
		if err := source.Dial(Way{Local: anywhere, Remote: at}, ready); err != nil {
			t.Fatal(err)
		}
		if err := source.Ready(2 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	accept := func() {
		t.Helper()
		if err := sink.Accept(listener, 2*time.Second, ready); err != nil {
			t.Fatal(err)
		}
		if !source.Stand() || !sink.Stand() {
			t.Fatal("connections do not stand")
		}
	}
	dial()
	accept()
	source.Drop()
	if sink.Stand() {
		t.Error("the connections of the sink stand although the source has dropped them")
	}
	sink.Drop()
	dial() // abandoned
	source.Drop()
	dial()
	accept()
	listener.Close()
	listener.FD = -1
	err = source.Dial(Way{Local: anywhere, Remote: at}, ready)
	if err == nil { // the kernel may report it later
		err = source.Ready(2 * time.Second)
	}
	if err == nil || !source.Broken {
		t.Errorf("dialed where nobody listens: %v, broken: %v", err, source.Broken)
	}
}
