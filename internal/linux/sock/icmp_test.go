package sock

import (
	"strings"
	"testing"
)

func TestEchoes(t *testing.T) {
	const four = "Ip: Forwarding InReceives\nIp: 1 7\nIcmp: InMsgs InErrors InEchos OutMsgs\nIcmp: 9 1 42 8\nIcmpMsg: " +
		"InType8 OutType0\nIcmpMsg: 5 5\n"
	const six = "Ip6InReceives                   \t3\nIcmp6InEchos                    \t11\nIcmp6InEchoReplies          " +
		"    \t12\n"
	for _, tt := range []struct {
		text string
		ipv6 bool
		want int64
	}{{four, false, 42}, {six, true, 11}} {
		if got, err := echoes(tt.text, tt.ipv6); err != nil || got != tt.want {
			t.Errorf("%q: %d, %v, want %d", tt.text, got, err, tt.want)
		}
	}
	for _, bad := range []struct {
		text string
		ipv6 bool
	}{
		{"", false},
		{"", true},
		{six, false},
		{four, true},
		{"Icmp: InMsgs InEchos\nIcmp: 1\n", false},
		{"Icmp: InEchos\nIcmp: x\n", false},
		{"Icmp6InEchos -1\n", true},
	} {
		if got, err := echoes(bad.text, bad.ipv6); err == nil {
			t.Errorf("%q: %d and no error", bad.text, got)
		}
	}
}

// FuzzEchoes checks that every text is read or refused.
func FuzzEchoes(f *testing.F) {
	f.Add("Icmp: InMsgs InEchos\nIcmp: 1 2\n", false)
	f.Add("Icmp6InEchos 3\n", true)
	f.Fuzz(func(t *testing.T, text string, ipv6 bool) {
		if n, err := echoes(text, ipv6); n < 0 || err == nil && !strings.Contains(text, "InEchos") || err != nil && n != 0 {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	})
}
