package worker_test

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
)

// The devices of a namespace count what is sent there.
func TestCountDevices(t *testing.T) {
	if err := testnet.New(t).Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		if err := h.SetUp(lo.Index, true); err != nil {
			return err
		}
		counted := func() (traffic.DeviceCount, error) {
			list, err := worker.CountDevices(h)
			i := slices.IndexFunc(list, func(d traffic.DeviceCount) bool { return d.Name == "lo" && d.Index == lo.Index })
			if err != nil || i < 0 {
				return traffic.DeviceCount{}, fmt.Errorf("lo is not among %+v: %w", list, err)
			}
			return list[i], nil
		}
		before, err := counted()
		if err != nil {
			return err
		}
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return err
		}
		defer c.Close()
		const sent, size = 10, 100
		for range sent {
			if _, err := c.WriteTo(make([]byte, size), c.LocalAddr()); err != nil {
				return err
			}
		}
		after, err := counted()
		if err != nil {
			return err
		}
		if after.Sent-before.Sent < sent || after.Received-before.Received < sent ||
			after.SentBytes-before.SentBytes < sent*size {
			t.Errorf("lo counted %+v and then %+v, want %d packets of %d bytes more", before, after, sent, size)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
