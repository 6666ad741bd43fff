package sock_test

import (
	"net"
	"testing"
	"time"

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

// TestReceiveQueue fills the buffer of a socket that nobody reads, and reads it.
func TestReceiveQueue(t *testing.T) {
	listens, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listens.Close()
	if err := listens.SetReadBuffer(1); err != nil { // the least that the kernel gives
		t.Fatal(err)
	}
	if waiting, dropped, err := sock.ReceiveQueue(listens); waiting != 0 || dropped != 0 || err != nil {
		t.Errorf("nothing was sent: %d bytes wait, %d packets dropped, %v", waiting, dropped, err)
	}
	const sent = 100
	for range sent {
		if _, err := listens.WriteTo([]byte("a datagram"), listens.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	waiting, dropped, err := sock.ReceiveQueue(listens)
	if waiting == 0 || err != nil {
		t.Errorf("%d bytes wait after %d datagrams: %v", waiting, sent, err)
	}
	var read uint64
	buf := make([]byte, 64)
	for {
		if err := listens.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := listens.Read(buf); err != nil {
			break
		}
		read++
	}
	if read+dropped != sent || dropped == 0 {
		t.Errorf("%d datagrams read and %d dropped, want %d together", read, dropped, sent)
	}
	if waiting, _, err := sock.ReceiveQueue(listens); waiting != 0 || err != nil {
		t.Errorf("%d bytes wait when all is read: %v", waiting, err)
	}
	listens.Close()
	if _, _, err := sock.ReceiveQueue(listens); err == nil {
		t.Error("a closed socket has a queue")
	}
}
