package ovs

import (
	"net"
	"slices"
	"testing"
	"time"
)

// An unrequested message of a bridge is not taken as an answer.
func TestUnasked(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	c := newConn(here)
	go func() {
		defer there.Close()
		for _, kind := range []byte{typeEcho, typePortStatus, typePacketIn, typeFlowRemoved, typeBarrierDone} {
			_, _ = there.Write([]byte{version14, kind, 0, headerLen + 2, 0, 0, 0, 1, 'a', kind})
		}
		_, _ = there.Write([]byte{version14, typePortStatus, 0, 1, 0, 0, 0, 1})
	}()
	_ = here.SetDeadline(time.Now().Add(10 * time.Second))
	kind, body, err := c.read()
	if err != nil || kind != typeBarrierDone || !slices.Equal(body, []byte{'a', typeBarrierDone}) {
		t.Errorf("read = %d, %v, %v, want the answer", kind, body, err)
	}
	if _, _, err := c.read(); err == nil {
		t.Error("a message shorter than its header is none")
	}
}
