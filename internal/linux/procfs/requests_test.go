package procfs

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Connections that were asked for are read from the kernel's table, in both families; others are not.
func TestRequests(t *testing.T) {
	line := func(local, remote, state string) string {
		return fmt.Sprintf("   0: %s %s %s 00000000:00000000 01:00000010 00000000  0  0 0 1 0000000000000000\n", local, remote,
			state)
	}
	at := func(a netip.Addr, port uint16) string { return fmt.Sprintf("%s:%04X", hexAddr(a), port) }
	v4, v6 := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd00:9::1")
	table := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		line(at(v4, 20_000), at(v4.Next(), 40_000), asked) +
		line(at(v4, 20_000), at(v4.Next(), 40_001), stands) +
		line(at(v4, 20_000), at(netip.IPv4Unspecified(), 0), listens) +
		line(at(v6, 20_001), at(v6.Next(), 40_002), asked) +
		line("zz:1", "00:2", asked)
	want := []Request{
		{20_000, netip.AddrPortFrom(v4.Next(), 40_000)}, {20_001, netip.AddrPortFrom(v6.Next(), 40_002)},
	}
	if diff := cmp.Diff(want, requests(table), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
