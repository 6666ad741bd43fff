package sock_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestPacketQueues compares the count with what the socket itself says it has dropped.
func TestPacketQueues(t *testing.T) {
	testnet.Root(t)
	_, before, err := sock.PacketQueues()
	if err != nil {
		t.Fatal(err)
	}
	all := int(uint16(unix.ETH_P_ALL)<<8 | unix.ETH_P_ALL>>8)
	listens, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listens)
	sends, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sends)
	for range 2000 {
		_ = unix.Sendto(sends, make([]byte, 100), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}})
	}
	waiting, after, err := sock.PacketQueues()
	if err != nil {
		t.Fatal(err)
	}
	if waiting == 0 {
		t.Error("nothing waits at a socket that nobody reads")
	}
	own, err := unix.GetsockoptTpacketStats(listens, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		t.Fatal(err)
	}
	if own.Drops == 0 || after-before != uint64(own.Drops) {
		t.Errorf("packet sockets have dropped %d packets, and the only one of them says %d", after-before, own.Drops)
	}
}
