package byhand

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// An IPv6 /64 gets no more places than an IPv4 address: its owner can use all of its addresses.
func TestPlacesByNetwork(t *testing.T) {
	const sources = 64
	for _, c := range []struct {
		address     string // of number N
		served, let int    // sources with a seat, and those that were not refused
		refused     string
	}{
		{"198.51.100.N", sources, sources, ""},
		{"198.51.100.7", 1, 1 + mostAlike, "4 sources of 198.51.100.7 wait already"},
		{"2001:db8:0:N::1", sources, sources, ""},
		{"2001:db8:0:1::N", 1, 1 + mostAlike, "4 sources of 2001:db8:0:1::/64 wait already"},
		{"2001:db8:0:1:N00::", 1, 1 + mostAlike, "4 sources of 2001:db8:0:1::/64 wait already"},
		{"fe80::N%eth0", 1, 1 + mostAlike, "4 sources of fe80::/64 wait already"},
		{"fe80::1%ethN", 1, 1 + mostAlike, "4 sources of fe80::/64 wait already"},
	} {
		q := &queue{seats: make([]*guest, sources), perAddress: 1}
		let, served := 0, 0
		for i := range sources {
			g, err := q.enter(netip.MustParseAddr(strings.ReplaceAll(c.address, "N", strconv.Itoa(i+10))))
			if err != nil {
				if !errors.Is(err, errQueueFull) || err.Error() != c.refused {
					t.Errorf("%s: source %d: %v", c.address, i, err)
				}
				continue
			}
			let++
			if before, _ := q.place(g); before == 0 {
				served++
			}
		}
		if let != c.let || served != c.served {
			t.Errorf("%s: %d let in, %d of them served (want %d, %d)", c.address, let, served, c.let, c.served)
		}
	}
}
