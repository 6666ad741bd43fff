package procfs_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestNetlinkDrops has a socket with hardly a buffer miss what the kernel tells of links.
func TestNetlinkDrops(t *testing.T) {
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
		_, after, err := procfs.NetlinkQueues(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		if after <= before {
			t.Errorf("%d messages were dropped, after %d before", after, before)
		}
		_, other, err := procfs.NetlinkQueues(unix.NETLINK_GENERIC)
		if err != nil || other != 0 {
			t.Errorf("%d messages of another protocol were dropped, %v", other, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
