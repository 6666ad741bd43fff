package procfs

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

func TestBound(t *testing.T) {
	self := os.Getpid()
	for _, addr := range []string{"127.0.0.1", "0.0.0.0", "::"} {
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(addr)})
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		port := udp.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		for _, tt := range []struct {
			network string
			at      netip.AddrPort
			want    bool
		}{
			{"udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), true},
			{"udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port), addr != "127.0.0.1"},
			{"udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 1), false},
			{"tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), false},
		} {
			if got, err := Bound(self, tt.network, tt.at); got != tt.want || err != nil {
				t.Errorf("bound to %s: %s %s: got %v, %v, want %v", addr, tt.network, tt.at, got, err, tt.want)
			}
		}
	}
	if _, err := Bound(1<<30, "udp", netip.AddrPort{}); err == nil {
		t.Error("no such process, and no error")
	}
}

func TestBoundTable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1389 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 26583 1 0000000000000000 100 0 0 10 0
   1: 0100007F:138A 0100007F:8D3C 01 00000000:00000000 00:00000000 00000000     0        0 26584 1 0000000000000000 100 0 0 10 0
   2: 000010FD000001000000000002000000:138B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1
`
	for at, want := range map[string]bool{
		"127.0.0.1:5001":     true,
		"127.0.0.1:5002":     false, // connected, but does not listen
		"[fd10:0:1::2]:5003": true,
		"[fd10:0:1::3]:5003": false,
	} {
		if got := bound(table, listens, netip.MustParseAddrPort(at)); got != want {
			t.Errorf("%s: %v, want %v", at, got, want)
		}
		if got, want := bound(table, stands, netip.MustParseAddrPort(at)), at == "127.0.0.1:5002"; got != want {
			t.Errorf("%s: connected %v, want %v", at, got, want)
		}
	}
}
