package ebpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/bpf/allow"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
)

// Listing is the step: a list enforced at the ingress of links.
type Listing struct {
	// Match is one of [allow.Ways].
	Match string   `json:"match"`
	Links []string `json:"links"`
	// Uplink is that of them to the underlay. Frames of the EtherType pass there undecided, if it is not 0: what is inside
	// arrives by another link.
	Uplink    string `json:"uplink,omitempty"`
	EtherType uint16 `json:"ether_type,omitempty"`
	// Layers are those of them by which packets arrive that others are inside of, besides the uplink.
	Layers []string `json:"layers,omitempty"`
	// Bridged says that they are ports of a bridge.
	Bridged bool        `json:"bridged,omitempty"`
	List    filter.List `json:"list"`
	// Bound are the addresses that are bound to links, where they are.
	Bound []filter.Binding `json:"bound,omitempty"`
}

// Kind returns "ebpf-filter".
func (Listing) Kind() string { return "ebpf-filter" }

// String says the step as a person would.
func (l Listing) String() string {
	traits := "stateless"
	if l.List.Stateful {
		traits = "stateful"
	}
	if l.Bound != nil {
		traits += fmt.Sprintf(", addresses bound to %d links", len(l.Bound))
	}
	where := fmt.Sprint(len(l.Links), " links")
	if len(l.Links) > 0 {
		where += fmt.Sprintf(" (%s to %s)", l.Links[0], l.Links[len(l.Links)-1])
	}
	return fmt.Sprintf("filter by eBPF (%s, %s) on tcx at %s: %d pairs' rules and %d decoy rules, of %v", l.Match, traits,
		where, len(l.List.Allowed), l.List.Decoys, l.List.Families)
}

// Listed returns the list.
func (l Listing) Listed() filter.List { return l.List }

// asked is a rule as the program has it.
func asked(r filter.Rule) allow.Rule {
	return allow.Rule{
		Source: r.Source, Sink: r.Sink, First: r.First, Last: r.Last, SourceFirst: r.SourceFirst,
		SourceLast: r.SourceLast,
	}
}

// list is what the program is asked for.
func (l Listing) list() allow.List {
	var bound []allow.Binding
	for _, b := range l.Bound {
		mac, _ := b.Hardware() // checked by Bindings
		bound = append(bound, allow.Binding{Link: b.Link, MAC: mac, IPv4: b.IPv4, IPv6: b.IPv6, Local: filter.LinkLocal(mac)})
	}
	return allow.List{
		Bound: bound,
		Way:   l.Match, Stateful: l.List.Stateful, OneLink: l.Bridged, Links: l.Links, Uplink: l.Uplink,
		EtherType: l.EtherType, Layers: l.Layers,
		Rules: func(v6 bool) iter.Seq[allow.Rule] {
			return func(yield func(allow.Rule) bool) {
				for r := range l.List.Rules(v6) {
					if !yield(asked(r)) {
						return
					}
				}
			}
		},
	}
}

// listingWas is what a [Listing] keeps.
type listingWas struct {
	Attached []bpf.Attachment `json:"attached"`
}

// Apply loads the program and hooks it to the links.
func (l Listing) Apply(_ context.Context, k *host.Kernel) error {
	var attached []bpf.Attachment
	var held io.Closer
	err := k.Load("rules", func() error {
		return k.Do("", func() (err error) {
			attached, held, err = allow.Add(l.list())
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := errors.Join(k.Keep(listingWas{attached}), k.Hold(held)); err != nil {
		return errors.Join(err, held.Close())
	}
	var memory int64
	err = k.Do("", func() (err error) {
		memory, err = allow.Memory(l.list())
		return err
	})
	switch {
	case err == nil:
		k.Metric("rules_memory", float64(memory))
	case !errors.Is(err, errors.ErrUnsupported): // else what the whole machine took more stays
		return errors.Join(err, held.Close())
	}
	k.Implementation("filter", fmt.Sprintf("ebpf (tcx, %s)", l.Match))
	return nil
}

// Remove takes the program away from the links.
func (l Listing) Remove(_ context.Context, k *host.Kernel) error {
	var was listingWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return k.Do("", func() error { return bpf.Detach(was.Attached) })
}

// maxDrifts is how many things that differ are named.
const maxDrifts = 8

// Verify asks the kernel where the program is, and what its list holds.
func (l Listing) Verify(k *host.Kernel) error {
	var found []linux.Difference
	if err := k.Do("", func() (err error) {
		found, err = allow.Compare(l.list())
		return err
	}); err != nil || len(found) == 0 {
		return err
	}
	drift := &host.DriftError{Step: l.String()}
	for i, d := range found {
		if i == maxDrifts {
			drift.Drifts = append(drift.Drifts, linux.Difference{
				What: "differences", Want: "none", Got: fmt.Sprintf("%d more", len(found)-i),
			})
			break
		}
		drift.Drifts = append(drift.Drifts, d)
	}
	return drift
}

// MeasureCost measures what changing a rule costs.
func (l Listing) MeasureCost(ctx context.Context, k *host.Kernel) error {
	return filter.MeasureCost(ctx, k, l)
}

// UpdateRule adds a rule, or takes one that was added away again.
func (l Listing) UpdateRule(k *host.Kernel, r filter.Rule, allowed bool) error {
	return k.Do("", func() error { return allow.UpdateRule(l.list(), asked(r), allowed) })
}

// Counters reads what the program has counted.
func (l Listing) Counters(k *host.Kernel) (c filter.Counters, err error) {
	err = k.Do("", func() error {
		read, err := allow.Read(l.list())
		c = filter.Counters(read)
		return err
	})
	return c, err
}

// Silent says that nothing tells of its entries of maps, see [host.Silent].
func (Listing) Silent() {}

// Tracks says whether connections are tracked, see [host.Tracker].
func (l Listing) Tracks() bool { return l.List.Stateful }

// Lasting lists connections that the rules would not let begin now, see [host.Tracker]. The program has a table of its
// own.
func (l Listing) Lasting(k *host.Kernel, _ []conntrack.Flow) (list []string, doubt string, err error) {
	err = k.Do("", func() error {
		flows, err := allow.Flows(l.list())
		list = l.List.Lasting(flows)
		return err
	})
	return list, "", err
}
