package link

import (
	"errors"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestQueue(t *testing.T) {
	m := testnet.New(t)
	var h *Handle
	if err := m.Do(func() (err error) { h, err = Open(); return err }); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	a, err := h.AddVeth(Veth{Name: "a", PeerName: "b", PeerNS: m.NS})
	testnet.Skip(t, err)
	was, err := h.Queue(a)
	if err != nil || was != (Queue{Kind: "noqueue", Length: 1000}) {
		t.Errorf("a new veth has the queue %+v (%v)", was, err)
	}
	for _, c := range []struct {
		length int
		want   Queue
	}{
		{0, Queue{"noqueue", 0}},
		{1000, Queue{"pfifo_fast", 1000}},
		{20, Queue{"pfifo_fast", 20}},
		{0, Queue{"noqueue", 0}},
	} {
		testnet.Skip(t, h.SetQueue(a, c.length))
		if got, err := h.Queue(a); got != c.want || err != nil {
			t.Errorf("set to %d it is %+v (%v), want %+v", c.length, got, err, c.want)
		}
	}
	if err := h.PutQueue(a, was); err != nil {
		t.Error(err)
	}
	if got, err := h.Queue(a); got != was || err != nil {
		t.Errorf("put back it is %+v (%v), want %+v", got, err, was)
	}
	if _, err := h.Queue(99); !errors.Is(err, ErrNotFound) {
		t.Errorf("the queue of no link: %v", err)
	}
	if err := h.PutQueue(99, was); !errors.Is(err, ErrNotFound) {
		t.Errorf("the queue of no link set: %v", err)
	}
}
