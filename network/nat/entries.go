package nat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/network"
)

const (
	// outside stands for all the places that connections of the filled table lead to: TEST-NET-1, RFC 5737, which no lab
	// has.
	outside = "192.0.2.1"
	// mark distinguishes the entries that fill the table from those of traffic.
	mark = 0x746f6c6c
	// staying is how long they stay if nobody removes them: longer than any run.
	staying = 30 * 24 * time.Hour
	// measuring is how long new translations are counted in each generation: some thousand of them. Nothing else is built
	// meanwhile.
	measuring = 50 * time.Millisecond
	// ahead is how many packets are sent before those that have arrived are counted: they fit into the buffer of a socket
	// (net.core.rmem_default).
	ahead = 32
	// perEntry is the number of entries below which their memory says nothing: see [host.Kernel.Load].
	perEntry = 1000
)

// Entries are translations that no packet uses: they fill the table in which the host looks for those that packets do
// use. IPv4 and IPv6 have one table. Once they are there it measures how fast further ones can be made.
type Entries struct {
	// Count is how many there are.
	Count int `json:"count"`
	// Bridge is the bridge of the host's containers, and Gateway its address with the prefix of theirs.
	Bridge  string `json:"bridge"`
	Gateway string `json:"gateway"`
	// Source is an address that no container has. Public is the one to which it is translated.
	Source string `json:"source"`
	Public string `json:"public"`
}

// Kind returns "nat-entries".
func (Entries) Kind() string { return "nat-entries" }

// String says the step as a person would.
func (e Entries) String() string {
	return fmt.Sprintf("nat-entries: %d, from %s behind %s to %s", e.Count, e.Source, e.Public, outside)
}

func (e Entries) filling() (conntrack.Filling, error) {
	f := conntrack.Filling{Destination: netip.MustParseAddr(outside), Count: e.Count, Timeout: staying, Mark: mark}
	var err error
	if f.Source, err = netip.ParseAddr(e.Source); err == nil {
		f.Public, err = netip.ParseAddr(e.Public)
	}
	return f, err
}

// Apply fills the table.
func (e Entries) Apply(ctx context.Context, k *host.Kernel) error {
	f, err := e.filling()
	if err != nil || e.Count == 0 {
		return err
	}
	if err := k.Load("entries", func() error { return k.Do("", func() error { return conntrack.Fill(f) }) }); err != nil {
		return errors.Join(err, e.Remove(ctx, k))
	}
	if memory, known := k.Report().Metrics["entries_memory"]; known && e.Count >= perEntry {
		k.Metric("memory_per_entry", memory/float64(e.Count))
	}
	return nil
}

// Remove empties the table of them.
func (e Entries) Remove(_ context.Context, k *host.Kernel) error {
	if e.Count == 0 {
		return nil
	}
	return k.Do("", func() error { return conntrack.Flush(mark) })
}

// Verify counts them.
func (e Entries) Verify(k *host.Kernel) error {
	if e.Count == 0 {
		return nil
	}
	var got int
	if err := k.Do("", func() (err error) {
		got, err = conntrack.Count(mark)
		return err
	}); err != nil {
		return err
	}
	if got != e.Count {
		return &host.DriftError{Step: e.String(), Drifts: []linux.Difference{
			{What: "entries", Want: strconv.Itoa(e.Count), Got: strconv.Itoa(got)},
		}}
	}
	return nil
}

// MeasureCost counts how many new translations the host makes in a second, one packet each, beside those that fill its
// table. The packets go from a container to a place outside which are there only for that.
func (e Entries) MeasureCost(ctx context.Context, k *host.Kernel) (err error) {
	const source, sink = "nat-from", "nat-to"
	gateway, err := netip.ParsePrefix(e.Gateway)
	if err != nil {
		return err
	}
	// The sink has the address outside, in a network of its own. The host has the next address of that.
	at := netip.AddrPortFrom(netip.MustParseAddr(outside), 9) // discard, RFC 863
	next := netip.PrefixFrom(at.Addr().Next(), 30)
	var s host.Stack
	defer func() { err = errors.Join(err, s.Undo(context.WithoutCancel(ctx), k)) }()
	if err := s.Apply(ctx, k, host.Plan{Steps: []host.Step{
		host.Namespace{Name: source},
		host.Namespace{Name: sink},
		host.Veth{Name: source, Master: e.Bridge, PeerNS: source, PeerName: network.Inner, PeerAddresses: []string{
			netip.PrefixFrom(netip.MustParseAddr(e.Source), gateway.Bits()).String(),
		}},
		host.Route{NS: source, To: "0.0.0.0/0", Via: gateway.Addr().String(), Dev: network.Inner},
		host.Veth{
			Name: sink, Addresses: []string{next.String()}, PeerNS: sink, PeerName: network.Inner,
			PeerAddresses: []string{netip.PrefixFrom(at.Addr(), 30).String()},
		},
	}}); err != nil {
		return err
	}
	if err := s.Verify(ctx, k); err != nil {
		return err
	}
	// Entries that are made here must not be left for the first trials.
	defer func() { err = errors.Join(err, k.Do("", func() error { return conntrack.Flush(0) })) }()
	var from *conntrack.Sender
	var to *conntrack.Counter
	if err := k.Do(source, func() (err error) {
		from, err = conntrack.NewSender(netip.MustParseAddr(e.Source), at)
		return err
	}); err != nil {
		return err
	}
	defer from.Close()
	if err := k.Do(sink, func() (err error) {
		to, err = conntrack.NewCounter(at)
		return err
	}); err != nil {
		return err
	}
	defer to.Close()
	rate, err := translations(from, to)
	if err != nil {
		return err
	}
	if rate == 0 { // nobody asked for it where the table is not filled
		if e.Count > 0 {
			k.Doubt("new translations could not be counted because no packet arrived, which a filter may refuse: measure nat " +
				"without a filter to count them")
		}
		return nil
	}
	k.Metric("translation_rate", rate)
	return nil
}

// first is the first port from which the host's own packets are not sent.
const first = 1 << 10

// translations sends packets, each from a port of its own, and returns how many arrive in a second.
func translations(from *conntrack.Sender, to *conntrack.Counter) (float64, error) {
	// The first packets find out where their neighbours are: their ports are not used again.
	port := first
	for deadline := time.Now().Add(time.Second); ; {
		if err := from.Send(uint16(port)); err != nil {
			return 0, err
		}
		port++
		time.Sleep(time.Millisecond)
		n, err := to.Count()
		if err != nil {
			return 0, err
		}
		if n > 0 {
			break
		}
		if time.Now().After(deadline) {
			return 0, nil
		}
	}
	arrived := 0
	began := time.Now()
	for port+ahead < 1<<16 && time.Since(began) < measuring {
		for range ahead {
			if err := from.Send(uint16(port)); err != nil {
				return 0, err
			}
			port++
		}
		n, err := to.Count()
		if err != nil {
			return 0, err
		}
		arrived += n
	}
	return float64(arrived) / time.Since(began).Seconds(), nil
}

// mostEntries is what the parameter can be, and entriesName what it is called.
const (
	mostEntries = 100_000
	entriesName = "entries"
)

func checkEntries(s string) (string, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > mostEntries {
		return "", fmt.Errorf("invalid value %q (valid: a number from 0 to %d)", s, mostEntries)
	}
	return strconv.Itoa(n), nil
}

// phantom is a number that no container has. Its address would be 10.H.254.1.
const phantom = 253<<8 + 1

// fill returns the step that fills the table of a host, for what its translation does.
func fill(h network.Host, n Translation, count int) (Entries, error) {
	if len(h.Containers) > phantom {
		return Entries{}, fmt.Errorf("host %d: %d containers, but the address of container %d is needed to fill the "+
			"translation table", h.Index,
			len(h.Containers), phantom)
	}
	gateway, _ := network.Gateway(h.Index)
	source, _ := network.ContainerAddr(h.Index, phantom)
	return Entries{
		Count: count, Bridge: network.Bridge, Gateway: gateway.String(), Source: source.Addr().String(),
		Public: n.Public[0],
	}, nil
}
