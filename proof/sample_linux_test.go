package proof_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/proof"
)

// Samples go round through all pairs, both kinds of what must not pass, and both families.
func TestSamplesGoRound(t *testing.T) {
	const pairs = 3
	l := described(pairs)
	seen := map[string]int{}
	for n := range pairs * 2 * 2 * (pairs - 1) {
		s := l.Sample(n)
		kind := "port"
		if !strings.HasSuffix(s.To.Container, fmt.Sprint(s.Pair)) {
			kind = "to " + s.To.Container
		}
		seen[fmt.Sprintf("%s, %s, %s", s.From.Container, s.Family, kind)]++
		if to := s.To.Local.Port(); (kind == "port") != ((to-20_000)%50 == 49) {
			t.Errorf("%s is for port %d", s.Name, to)
		}
	}
	for i := range pairs {
		for _, family := range []string{"ipv4", "ipv6"} {
			for k := range pairs {
				kind, want := fmt.Sprintf("to snk%d", k), 1
				if i == k {
					kind, want = "port", pairs-1
				}
				what := fmt.Sprintf("src%d, %s, %s", i, family, kind)
				if seen[what] != want {
					t.Errorf("%s: %d samples, want %d", what, seen[what], want)
				}
			}
		}
	}
}

// A sample that nothing refuses arrives, and one of another source does not count.
func TestSampleArrives(t *testing.T) {
	machine := testnet.New(t)
	far, err := netns.New(nil)
	if err != nil {
		testnet.Skip(t, err)
	}
	defer far.Close()
	l := described(2)
	in := func(e proof.End, f func() error) error {
		if strings.HasPrefix(e.Container, "src") {
			return machine.Do(f)
		}
		return netns.Do(int(far.Fd()), f)
	}
	var addresses [2][]netip.Prefix // of sources and of sinks
	for i, c := range l.Hosts[0].Containers {
		addresses[i%2] = append(addresses[i%2], netip.PrefixFrom(c.IPv4, 8), netip.PrefixFrom(c.IPv6, 64))
	}
	testnet.Skip(t, machine.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		_, err = h.AddVeth(link.Veth{Name: "near", PeerName: "far", PeerNS: far})
		return err
	}))
	raise(t, machine.NS, "near", addresses[0])
	raise(t, far, "far", addresses[1])
	h := &proof.Here{In: in}
	try := func(listen, send proof.Try) (n int64) {
		t.Helper()
		if err := errors.Join(h.Listen(t.Context(), listen), h.Send(t.Context(), send)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // a busy machine takes longer than [proof.Patience.Wait]
		return h.Arrived(t.Context())
	}
	for n := range 8 {
		s := l.Sample(n)
		deadline := time.Now().Add(10 * time.Second) // links come up when they do, and neighbours are found
		for try(s, s) == 0 {
			if time.Now().After(deadline) {
				t.Fatalf("%s: none arrived", s.Name)
			}
		}
		other := s
		other.From.Local = netip.AddrPortFrom(s.From.Local.Addr(), s.From.Local.Port()+1)
		if got := try(s, other); got != 0 {
			t.Errorf("%s: %d of another source arrived", s.Name, got)
		}
	}
	if n := h.Arrived(t.Context()); n != 0 {
		t.Errorf("without a receiver, %d arrived", n)
	}
}

// raise gives a link of a namespace addresses.
func raise(t *testing.T, ns *os.File, name string, addresses []netip.Prefix) {
	t.Helper()
	if err := netns.Do(int(ns.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		l, err := h.ByName(name)
		for _, a := range addresses {
			if err == nil {
				err = h.AddAddress(l.Index, a)
			}
		}
		return errors.Join(err, h.SetUp(l.Index, true))
	}); err != nil {
		t.Fatal(err)
	}
}
