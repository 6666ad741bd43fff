package link

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// TestUnread sends more through a link of a program than its queue holds, and nobody reads them.
func TestUnread(t *testing.T) {
	const room, sent = 10, 25
	m := testnet.New(t)
	if err := m.Do(func() error {
		h, err := Open()
		if err != nil {
			return err
		}
		defer h.Close()
		tap := &netlink.Tuntap{
			LinkAttrs: netlink.LinkAttrs{Name: "tap0", TxQLen: room}, Mode: netlink.TUNTAP_MODE_TAP, Queues: 1,
			Flags: unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_ONE_QUEUE,
		}
		if err := netlink.LinkAdd(tap); err != nil {
			testnet.Skip(t, err)
		}
		defer tap.Fds[0].Close()
		if err := netlink.LinkSetTxQLen(tap, room); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(tap); err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for range sent {
			// an error may say that it was dropped
			_ = unix.Sendto(fd, make([]byte, 60), 0, &unix.SockaddrLinklayer{Ifindex: tap.Attrs().Index})
		}
		links, err := h.Traffic()
		if err != nil {
			return err
		}
		for _, l := range links {
			// the kernel sends some of its own that it can (IPv6), so more than those may be dropped
			if l.Name == "tap0" && (l.Unread < sent-room || l.Unread > 2*sent) {
				t.Errorf("%d packets were not read, want about %d", l.Unread, sent-room)
			}
			if l.Name != "tap0" && l.Unread != 0 {
				t.Errorf("%d packets of link %s were not read", l.Unread, l.Name)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
