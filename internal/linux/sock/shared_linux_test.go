package sock_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// Sockets that share an address each receive the datagrams of their own peer, and no other socket can have that
// address.
func TestUDPShared(t *testing.T) {
	one := netip.MustParseAddrPort("127.0.0.1:7101")
	peers := []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.1:7102"), netip.MustParseAddrPort("127.0.0.1:7103"),
		netip.MustParseAddrPort("127.0.0.1:7104"),
	}
	err := inside(t).Do(func() error {
		ones := []netip.AddrPort{one, one, one}
		shared, err := sock.UDPShared(ones, peers)
		if err != nil {
			return err
		}
		apart, err := sock.UDPShared(peers, ones)
		if err != nil {
			return err
		}
		for i := range shared {
			out, in := byte('a'+i), byte(0)
			if _, errno := apart[i].Send(&out, 1, 0); errno != 0 {
				t.Error(errno)
			}
			if n, errno := shared[i].Recv(&in, 1, sock.DontWait); n != 1 || errno != 0 || in != out {
				t.Errorf("socket %d: %d bytes, %q, %v, want %q", i, n, in, errno, out)
			}
			if _, errno := shared[i].Recv(&in, 1, sock.DontWait); errno != sock.Again {
				t.Errorf("socket %d has what is another's: %q, %v", i, in, errno)
			}
		}
		for what, open := range map[string]func() error{
			"sharing":     func() error { _, err := sock.UDPShared(ones[:1], peers[:1]); return err },
			"not sharing": func() error { _, err := sock.UDP(one, peers[0]); return err },
		} {
			if err := open(); err == nil || !strings.Contains(err.Error(), "7101: address already in use") {
				t.Errorf("%s: %v, want that the port is in use", what, err)
			}
		}
		for i := range shared {
			shared[i].Close()
			apart[i].Close()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
