package procfs_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestNetlinkQueues has a socket with hardly a buffer miss what the kernel tells of links.
func TestNetlinkQueues(t *testing.T) {
	m := testnet.New(t)
	err := m.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}); err != nil {
			return err
		}
		_, before, err := procfs.NetlinkQueues(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		const changes = 50
		for i := range changes {
			if err := h.SetUp(1, i%2 == 0); err != nil {
				return err
			}
		}
		waiting, after, err := procfs.NetlinkQueues(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		if waiting == 0 {
			t.Error("nothing waits at a socket that nobody reads")
		}
		if after <= before {
			t.Errorf("%d messages were dropped, after %d before", after, before)
		}
		waiting, other, err := procfs.NetlinkQueues(unix.NETLINK_GENERIC)
		if err != nil || waiting != 0 || other != 0 {
			t.Errorf("of another protocol %d bytes wait, and %d messages were dropped, %v", waiting, other, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
