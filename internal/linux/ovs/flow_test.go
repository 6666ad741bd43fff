package ovs

import (
	"net/netip"
	"slices"
	"testing"
)

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		first, last uint16
	}{{0, 0}, {1, 1}, {20000, 20008}, {1, 65534}, {65535, 65535}, {1024, 2047}, {20001, 20063}} {
		masks := Between(c.first, c.last)
		for port := range 1 << 16 {
			in := 0
			for _, m := range masks {
				if uint16(port)&m.Mask == m.Value {
					in++
				}
			}
			want := 0
			if port >= int(c.first) && port <= int(c.last) {
				want = 1
			}
			if in != want {
				t.Fatalf("Between(%d, %d): port %d is in %d of %v, want %d", c.first, c.last, port, in, masks, want)
			}
		}
	}
	if got := Between(0, 65535); len(got) != 1 || got[0].Mask != 0 {
		t.Errorf("all ports are %v, want one that does not look", got)
	}
	if got := Between(20000, 20008); len(got) != 2 { // 20000 is a multiple of 8
		t.Errorf("20000 to 20008 are %v, want 8 ports and one", got)
	}
}

// Different flows have different keys.
func TestKey(t *testing.T) {
	a, b := netip.MustParsePrefix("10.1.1.0/32"), netip.MustParsePrefix("10.1.1.1/32")
	base := Flow{
		Cookie: 1, Priority: 5, Match: Match{Ether: IPv4, Protocol: UDP, From: a, To: b, ToPort: Exactly(7)},
		Goto: 10,
	}
	seen := map[string]string{base.Key(): "the first"}
	for what, change := range map[string]func(*Flow){
		"cookie":         func(f *Flow) { f.Cookie = 2 },
		"table":          func(f *Flow) { f.Table = 1 },
		"priority":       func(f *Flow) { f.Priority = 6 },
		"source":         func(f *Flow) { f.Match.From = b },
		"port":           func(f *Flow) { f.Match.ToPort = Exactly(8) },
		"mask of a port": func(f *Flow) { f.Match.ToPort = Masked{7, 7} },
		"source port":    func(f *Flow) { f.Match.ToPort, f.Match.FromPort = Masked{}, Exactly(7) },
		"protocol":       func(f *Flow) { f.Match.Protocol = TCP },
		"fragment":       func(f *Flow) { f.Match.Fragment = Later },
		"state":          func(f *Flow) { f.Match.Tracking = Flags(Tracked, New) },
		"port in":        func(f *Flow) { f.Match.InPort = Local },
		"dropped":        func(f *Flow) { f.Goto = 0 },
		"put out":        func(f *Flow) { f.Output = Normal },
		"committed":      func(f *Flow) { f.Commit = true },
		"tracked":        func(f *Flow) { f.Track = 1 },
	} {
		f := base
		change(&f)
		if other, ok := seen[f.Key()]; ok {
			t.Errorf("a flow with another %s has the key of %s", what, other)
		}
		seen[f.Key()] = what
	}
}

// FuzzEntries reads data that a switch could send.
func FuzzEntries(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, flowStatsLen+8))
	good := make([]byte, flowStatsLen+8)
	good[1], good[flowStatsLen+1], good[flowStatsLen+3] = flowStatsLen+8, 1, 4
	f.Add(good)
	f.Add(slices.Concat(good, good))
	f.Fuzz(func(t *testing.T, part []byte) {
		keys := map[string]bool{}
		if err := entries(part, keys); err == nil && len(part) > 0 && len(keys) == 0 {
			t.Errorf("%d bytes are no flow and no error", len(part))
		}
	})
}
