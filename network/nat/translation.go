package nat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/nft"
)

// A Translation translates addresses behind a host to one of the host's, with an nftables table of its own. A forwarded
// packet from one of Sources gets the public address of its family as its source. A packet to a public address and a
// published port gets another destination. Ports stay the same, unless two sources use the same port towards the same
// destination.
type Translation struct {
	NS string `json:"ns,omitempty"`
	// Table is the name of the table, of the family inet.
	Table string `json:"table"`
	// Public are addresses of the host, at most one of each family.
	Public []string `json:"public"`
	// Sources are prefixes in CIDR notation.
	Sources []string `json:"sources,omitempty"`
	// Published are the ports at which the public addresses lead to other addresses, for UDP and TCP. They do not
	// overlap.
	Published []Publication `json:"published,omitempty"`
}

// A Publication is the destination of packets to some ports of a public address.
type Publication struct {
	// First and Last are the ends of the range of ports, inclusive.
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
	// To are addresses, at most one of each family.
	To []string `json:"to"`
}

// Kind returns "nat".
func (Translation) Kind() string { return "nat" }

// maxPublished is the largest number of publications in a line.
const maxPublished = 4

// String describes the step in plain words. It shows only the first ones of many publications.
func (n Translation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nat %s behind %s", n.name(), strings.Join(n.Public, ", "))
	if len(n.Sources) > 0 {
		b.WriteString(", from " + strings.Join(n.Sources, ", "))
	}
	for i, p := range n.Published {
		if i == maxPublished && len(n.Published) > maxPublished+1 {
			fmt.Fprintf(&b, "; and %d more port ranges", len(n.Published)-i)
			break
		}
		fmt.Fprintf(&b, "; ports %d-%d to %s", p.First, p.Last, strings.Join(p.To, ", "))
	}
	return b.String()
}

// name returns the name of the table and its namespace.
func (n Translation) name() string {
	if n.NS == "" {
		return n.Table
	}
	return n.Table + " in " + n.NS
}

// Apply makes the table.
func (n Translation) Apply(_ context.Context, k *host.Kernel) error {
	t, err := n.table()
	if err != nil {
		return err
	}
	return k.Do(n.NS, func() error { return nft.Add(t) })
}

// Remove deletes the table.
func (n Translation) Remove(_ context.Context, k *host.Kernel) error {
	if gone, err := k.Gone(n.NS); gone || err != nil {
		return err
	}
	if err := k.Do(n.NS, func() error { return nft.Delete(n.Table) }); err != nil && !errors.Is(err, nft.ErrNotFound) {
		return err
	}
	return nil
}

// The priorities of chains for translation, and the names of their maps.
const (
	priorityDNAT = -100 // NF_IP_PRI_NAT_DST, include/uapi/linux/netfilter_ipv4.h
	prioritySNAT = 100  // NF_IP_PRI_NAT_SRC
	ports4       = "ports4"
	ports6       = "ports6"
)

// table returns the step as an nftables table. Each family has a map from ports to addresses, which two rules (UDP,
// TCP) look up, and a rule for each range of sources.
func (n Translation) table() (nft.Table, error) {
	four, six := nft.Map{Name: ports4}, nft.Map{Name: ports6, IPv6: true}
	for _, p := range n.Published {
		for _, text := range p.To {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nft.Table{}, fmt.Errorf("publish ports %d-%d at %q: %w", p.First, p.Last, text, err)
			}
			m := &four
			if a.Is6() {
				m = &six
			}
			m.Entries = append(m.Entries, nft.Entry{First: p.First, Last: p.Last, To: a})
		}
	}
	in := nft.Chain{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: priorityDNAT}
	out := nft.Chain{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: prioritySNAT}
	behind := map[bool]netip.Addr{} // by whether it is IPv6
	for _, text := range n.Public {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nft.Table{}, fmt.Errorf("public address %q: %w", text, err)
		}
		if other, ok := behind[a.Is6()]; ok {
			return nft.Table{}, fmt.Errorf("public address %q: %s is of the same family", text, other)
		}
		behind[a.Is6()] = a
		m := ports4
		if a.Is6() {
			m = ports6
		}
		for _, protocol := range []string{"udp", "tcp"} {
			in.Rules = append(in.Rules, nft.Rule{Destination: netip.PrefixFrom(a, a.BitLen()), Protocol: protocol, DNAT: m})
		}
	}
	for _, text := range n.Sources {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nft.Table{}, fmt.Errorf("sources %q: %w", text, err)
		}
		a, ok := behind[p.Addr().Is6()]
		if !ok {
			return nft.Table{}, fmt.Errorf("sources %q: no public address of this family", text)
		}
		out.Rules = append(out.Rules, nft.Rule{Source: p, SNAT: a})
	}
	return nft.Table{Name: n.Table, Maps: []nft.Map{four, six}, Chains: []nft.Chain{in, out}}, nil
}

// Verify compares the table with the step.
func (n Translation) Verify(k *host.Kernel) error {
	t, err := n.table()
	if err != nil {
		return err
	}
	drift := &host.DriftError{Step: n.String()}
	err = k.Do(n.NS, func() (err error) {
		drift.Drifts, err = nft.Compare(t)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		drift.Drifts = []linux.Difference{{What: "namespace " + n.NS, Want: linux.Present, Got: linux.Absent}}
		return drift
	}
	if err != nil || len(drift.Drifts) == 0 {
		return err
	}
	return drift
}
