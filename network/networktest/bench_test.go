package networktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	hostnet "github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/part"
)

// BenchmarkSetUp makes labs of 20 pairs, namespaces included, verifies and undoes them, and prints the medians. Hosts
// are done one after another, where a run does them at once. The aim: all of the first four in less than 2 s.
func BenchmarkSetUp(b *testing.B) {
	const pairs = 20
	on := variant{nat.Network{}, part.Params{"hairpin": "true"}, nil}
	for _, c := range []struct {
		hosts   int
		network network.Network
	}{
		{2, hostnet.Network{}},
		{2, bridge.Network{}},
		{2, nat.Network{}},
		{2, macvlan.Network{}},
		{1, bridge.Network{}},
		{1, on},
		{1, macvlan.Network{}},
	} {
		b.Run(fmt.Sprintf("%s/hosts=%d", c.network.Describe().Name, c.hosts), func(b *testing.B) {
			setUp(b, c.network, Lab(c.hosts, pairs))
		})
	}
}

// BenchmarkMany is BenchmarkSetUp with as many pairs as a bridge has ports for: they are to stand, verified, in 8 s,
// and to be gone in 3 s.
func BenchmarkMany(b *testing.B) {
	for _, n := range []network.Network{
		bridge.Network{}, ebpf.Network{}, routed.Network{}, variant{nat.Network{}, part.Params{"hairpin": "true"}, nil},
	} {
		b.Run(n.Describe().Name, func(b *testing.B) { setUp(b, n, Lab(1, 500)) })
	}
}

func setUp(b *testing.B, n network.Network, lab network.Lab) {
	b.Helper()
	var apply, verify, undo []time.Duration
	took := func(list *[]time.Duration, f func() error) {
		start := time.Now()
		if err := f(); err != nil {
			testnet.Skip(b, err)
		}
		*list = append(*list, time.Since(start))
	}
	bed, err := MakeBed(b, n, lab)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		took(&apply, func() error { return bed.Apply(b) })
		took(&verify, func() error { return bed.Verify(b) })
		took(&undo, bed.Undo)
	}
	for name, list := range map[string][]time.Duration{"apply-ms": apply, "verify-ms": verify, "undo-ms": undo} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2].Seconds()*1000, name)
	}
}
