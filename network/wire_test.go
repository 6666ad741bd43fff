package network_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
)

// What differs between what hosts send each other and what the stack says is named, with the host that sent it.
func TestEvidence(t *testing.T) {
	const mtu, udp, tcp, gre, icmpv6 = 1500, 17, 6, 47, 58
	arp := host.Wire{Protocol: 0x0806}
	v4 := func(protocol, port int) host.Wire { return host.Wire{Family: "ipv4", Protocol: protocol, Port: port} }
	tunnel := network.Span{
		Name: "hose", Outer: "ipv4", MTU: mtu - 50, Overhead: network.Overhead{Bytes: 50},
		Wire: []network.Protocol{{Name: "HOSE", Number: udp, Port: 4789}},
	}
	secret := network.Span{
		Name: "vault", Outer: "ipv4", MTU: mtu - 60, Overhead: network.Overhead{Bytes: 60}, Protected: true,
		Cipher: "AES",
		Wire:   []network.Protocol{{Name: "VAULT", Number: udp, Port: 500}, {Name: "VAULT's payload", Number: gre}},
	}
	connected := secret
	connected.Wire = []network.Protocol{
		{Name: "VAULT", Number: network.UDP, Port: 655}, {Name: "its connections", Number: network.TCP, Port: 655},
	}
	ranged := secret
	ranged.Wire = []network.Protocol{{Name: "VAULTS", Number: udp, Port: 500, Last: 502}}
	framed := secret
	framed.Outer, framed.Wire = "", []network.Protocol{{Name: "FRAMES", Number: 0x88e5}}
	joining := secret
	joining.Merged = 128
	gossiping := tunnel
	gossiping.Besides = []network.Protocol{{Name: "gossip", Number: network.TCP, Port: 7946}}
	inVault := tunnel
	inVault.MTU = mtu - 110
	lab := func(spans ...network.Span) network.Lab {
		l := network.NewLab(2, mtu)
		for i, s := range append([]network.Span{{Name: "underlay", MTU: mtu}}, spans...) {
			l.Spans, l.MTU = append(l.Spans, s), mtu
			if i > 0 {
				l.MTU = s.MTU
			}
		}
		return l
	}
	frame := func(w host.Wire, count, marked, longest int) host.Frames {
		return host.Frames{Link: "host1", Wire: w, Count: count, Marked: marked, Longest: longest}
	}
	for _, tt := range []struct {
		name   string
		lab    network.Lab
		text   string
		frames []host.Frames
		want   string // "" for nothing
	}{
		{
			"as they are", lab(), "packets between hosts are those of containers, and what containers send can be read in them",
			[]host.Frames{frame(arp, 2, 0, 42), frame(v4(udp, 20000), 65, 65, 1514), frame(v4(tcp, 22), 1, 0, 60)},
			"",
		},
		{"nothing", lab(), "", []host.Frames{frame(arp, 2, 0, 42)}, "on the underlay, from host1: no packet passes"},
		{"of another", lab(), "", []host.Frames{{Link: "host2", Wire: v4(udp, 1), Count: 1, Marked: 1, Longest: 1514}}, "no packet"},
		{"unmarked", lab(), "", []host.Frames{frame(v4(udp, 1), 9, 0, 1514)}, "what containers send is in none of 9 frames"},
		{
			"tunnel", lab(tunnel),
			"packets between hosts are HOSE (UDP to port 4789), 50 bytes longer at full size, and what containers send can be read in them",
			[]host.Frames{
				frame(arp, 2, 0, 42), frame(v4(udp, 4789), 65, 65, 1514),
				frame(host.Wire{Family: "ipv6", Protocol: icmpv6}, 3, 0, 90),
			},
			"",
		},
		{
			"frames", lab(framed), "packets between hosts are FRAMES (EtherType 0x88e5), by AES, 60 bytes longer at full size",
			[]host.Frames{frame(arp, 2, 0, 42), frame(host.Wire{Protocol: 0x88e5}, 65, 0, 1514)},
			"",
		},
		{
			"around frames", lab(framed), "",
			[]host.Frames{frame(host.Wire{Protocol: 0x88e5}, 65, 0, 1514), frame(v4(udp, 20000), 1, 0, 60)},
			"1 frames go around vault (UDP to port 20000)",
		},
		{
			"around a tunnel", lab(tunnel), "",
			[]host.Frames{frame(v4(udp, 4789), 65, 65, 1514), frame(v4(udp, 20000), 1, 0, 60)},
			"1 frames go around hose (UDP to port 20000)",
		},
		{
			"what hosts talk besides a tunnel", lab(gossiping), "",
			[]host.Frames{frame(v4(udp, 4789), 65, 65, 1514), frame(v4(tcp, 7946), 9, 0, 60_000)},
			"",
		},
		{
			"containers at the port of what hosts talk", lab(gossiping), "",
			[]host.Frames{frame(v4(udp, 4789), 65, 65, 1514), frame(v4(tcp, 7946), 9, 1, 60)},
			"9 frames go around hose (TCP to port 7946)",
		},
		{
			"other ports than what hosts talk", lab(gossiping), "",
			[]host.Frames{frame(v4(udp, 4789), 65, 65, 1514), frame(v4(udp, 7946), 9, 0, 60)},
			"9 frames go around hose (UDP to port 7946)",
		},
		{
			"an echo around a tunnel", lab(tunnel), "",
			[]host.Frames{frame(v4(udp, 4789), 65, 65, 1514), frame(v4(1, 0), 1, 1, 60)},
			"1 frames go around hose (ICMP)",
		},
		{
			"a tunnel of another overhead", lab(tunnel), "",
			[]host.Frames{frame(v4(udp, 4789), 65, 65, 1510)},
			"the longest frame has 1510 bytes, but a packet of 1450 bytes makes one of 1514 (underlay 1500, hose −50)",
		},
		{
			"encryption", lab(secret),
			"packets between hosts are VAULT (UDP to port 500) and VAULT's payload (IP protocol 47), by AES, 60 bytes longer at " +
				"full size",
			[]host.Frames{frame(v4(udp, 500), 4, 0, 200), frame(v4(gre, 0), 65, 0, 1514)},
			"",
		},
		{
			"encryption with connections", lab(connected), "",
			[]host.Frames{frame(v4(udp, 655), 65, 0, 1514), frame(v4(tcp, 655), 9, 0, 600)},
			"",
		},
		{
			"encryption at several ports", lab(ranged),
			"packets between hosts are VAULTS (UDP to ports 500 to 502), by AES, 60 bytes longer at full size",
			[]host.Frames{frame(v4(udp, 500), 4, 0, 200), frame(v4(udp, 502), 65, 0, 1514)},
			"",
		},
		{
			"a port below", lab(ranged), "",
			[]host.Frames{frame(v4(udp, 501), 9, 0, 1514), frame(v4(udp, 499), 1, 0, 90)},
			"1 frames go around vault (UDP to port 499)",
		},
		{
			"a port above", lab(ranged), "",
			[]host.Frames{frame(v4(udp, 501), 9, 0, 1514), frame(v4(udp, 503), 1, 0, 90)},
			"1 frames go around vault (UDP to port 503)",
		},
		{
			"a null cipher", lab(secret), "",
			[]host.Frames{frame(v4(gre, 0), 65, 65, 1514)},
			"it leaks: what a container sent can be read in 65 of 65 frames (GRE)",
		},
		{
			"a second way", lab(secret), "",
			[]host.Frames{frame(v4(gre, 0), 65, 0, 1514), frame(host.Wire{Family: "ipv6", Protocol: udp, Port: 9}, 3, 2, 90)},
			"it leaks: what a container sent can be read in 2 of 3 frames (UDP to port 9)",
		},
		{
			"a second way of others", lab(secret), "",
			[]host.Frames{frame(v4(gre, 0), 65, 0, 1514), frame(v4(tcp, 80), 3, 0, 90)},
			"3 frames go around vault (TCP to port 80)",
		},
		{
			"encryption of another overhead", lab(secret), "",
			[]host.Frames{frame(v4(gre, 0), 65, 0, 1513)},
			"the longest frame has 1513 bytes",
		},
		{
			"frames that are not joined", lab(secret), "",
			[]host.Frames{frame(v4(gre, 0), 65, 0, 3000)},
			"the longest frame has 3000 bytes",
		},
		{"joined frames", lab(joining), "", []host.Frames{frame(v4(gre, 0), 65, 0, 3000)}, ""},
		{
			"a tunnel in encryption", lab(secret, inVault), "", []host.Frames{frame(v4(gre, 0), 65, 0, 1514)}, "",
		},
		{
			"a tunnel beside encryption", lab(secret, inVault), "",
			[]host.Frames{frame(v4(gre, 0), 65, 0, 1514), frame(v4(udp, 4789), 1, 0, 90)},
			"1 frames go around vault",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := network.NewEvidence(tt.lab, []string{"host1", "host1"})
			if tt.text != "" && e.Text() != tt.text {
				t.Errorf("it says %q, want %q", e.Text(), tt.text)
			}
			wrong, leak := e.Heard(tt.frames)
			if leaks := strings.HasPrefix(tt.want, "it leaks"); leaks != (leak != nil) {
				t.Errorf("leak: %v, want one: %t", leak, leaks)
			}
			if protected := tt.lab.Top().Protected || len(tt.lab.Spans) == 3; protected != (e.Hidden() != "") {
				t.Errorf("it says %q, protected: %t", e.Hidden(), protected)
			}
			switch err := errors.Join(wrong, leak); {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if network.NewEvidence(lab(), nil) != nil {
		t.Error("there is evidence of an underlay that nothing passes")
	}
}
