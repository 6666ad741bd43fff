package filter

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// HookSite is embedded by steps that put their rules into the hooks of iptables: where the hooks are, and what may
// pass.
type HookSite struct {
	Point network.Point `json:"point"`
	// Uplinks are the links by which packets for the host itself arrive that are none of containers, see [Site.Uplinks].
	Uplinks []string `json:"uplinks,omitempty"`
	// Inside are the containers in which they stand, where they do.
	Inside []Inside `json:"inside,omitempty"`
	// List is what may pass.
	List List `json:"list"`
}

// An Inside is a container that a filter stands in.
type Inside struct {
	NS   string     `json:"ns"`
	IPv4 netip.Addr `json:"ipv4"`
	IPv6 netip.Addr `json:"ipv6"`
}

// A Place is a namespace in which packets of one family are decided.
type Place struct {
	NS string
	V6 bool
	// Own is the address of the container; the zero value is the host.
	Own netip.Addr
	// Hooks are the built-in chains of iptables: "FORWARD" and "INPUT" of the host, or "INPUT" and "OUTPUT" of a
	// container.
	Hooks []string
}

// Guards says whether what comes to a hook is for the host itself: none of it is on the list.
func (p Place) Guards(hook string) bool { return !p.Own.IsValid() && hook == "INPUT" }

// HookSite returns the hooks of a site and its list.
func (s Site) HookSite() HookSite {
	h := HookSite{Point: s.Point, Uplinks: s.Uplinks(), List: s.List}
	if s.Point == network.InContainer {
		for _, c := range s.Containers {
			h.Inside = append(h.Inside, Inside{NS: c.Namespace, IPv4: c.IPv4, IPv6: c.IPv6})
		}
	}
	return h
}

// Listed returns the list.
func (h HookSite) Listed() List { return h.List }

// Places returns the namespaces and families in which the rules are enforced, IPv4 first.
func (h HookSite) Places() []Place {
	var list []Place
	for _, v6 := range []bool{false, true} {
		if h.Point != network.InContainer {
			list = append(list, Place{V6: v6, Hooks: []string{"FORWARD", "INPUT"}})
		}
		for _, c := range h.Inside {
			own := c.IPv4
			if v6 {
				own = c.IPv6
			}
			list = append(list, Place{NS: c.NS, V6: v6, Own: own, Hooks: []string{"INPUT", "OUTPUT"}})
		}
	}
	return list
}

// Changed returns the places in the order in which a rule update is applied: a sink allows packets before its source
// does.
func (h HookSite) Changed(r Rule) []Place {
	places := h.Places()
	slices.SortStableFunc(places, func(a, b Place) int {
		if a.Own == r.Sink && b.Own != r.Sink {
			return -1
		}
		return 0
	})
	return places
}

// Sees says which of the packets of a rule come along at a hook: those of the source, and those of the sink.
func (p Place) Sees(hook string, r Rule) (forth, back bool) {
	switch {
	case r.Source.Is6() != p.V6 || p.Guards(hook):
		return false, false
	case hook == "INPUT":
		return p.Own == r.Sink, p.Own == r.Source
	case hook == "OUTPUT":
		return p.Own == r.Source, p.Own == r.Sink
	}
	return true, true
}

// Traits ends the text of a step: where it is enforced and what it allows. The position of the decoy rules is "before"
// or "behind".
func (h HookSite) Traits(decoys string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: drop all but %d flows of %s", h.Point, len(h.List.Allowed),
		strings.Join(h.List.Families, " and "))
	if h.List.Stateful {
		b.WriteString(" and their answers")
	}
	if h.List.Decoys > 0 {
		fmt.Fprintf(&b, ", %d decoy rules %s them", h.List.Decoys, decoys)
	}
	if len(h.Inside) > 0 {
		fmt.Fprintf(&b, ", in %d containers", len(h.Inside))
	} else {
		b.WriteString("; nothing reaches the host itself")
	}
	return b.String()
}

// Verify calls compare in every place, inside its namespace, and makes what it adds a [host.DriftError] of the step.
func (h HookSite) Verify(k *host.Kernel, step string,
	compare func(p Place, add func(what, want, got string)) error,
) error {
	return Verify(k, step, h.Places(), func(p Place) string {
		return p.NS
	}, func(p Place, add func(what, want, got string)) error {
		return compare(p, func(what, want, got string) {
			if p.V6 {
				what += " of IPv6"
			}
			if p.NS != "" {
				what += " in " + p.NS
			}
			add(what, want, got)
		})
	})
}

// Verify calls compare for each of some places, inside the namespace that it is in, and makes what it adds a
// [host.DriftError] of the step. A namespace that is gone is one.
func Verify[P any](k *host.Kernel, step string, places []P, in func(P) string,
	compare func(p P, add func(what, want, got string)) error,
) error {
	drift := &host.DriftError{Step: step}
	for _, p := range places {
		err := k.Do(in(p), func() error { return compare(p, drift.Add) })
		if errors.Is(err, fs.ErrNotExist) {
			drift.Add("namespace "+in(p), "present", "absent")
		} else if err != nil {
			return err
		}
	}
	if len(drift.Drifts) > 0 {
		return drift
	}
	return nil
}

// Count adds up the counters of the hooks. Inside containers, received packets count as allowed, and refused packets
// count in both directions. Packets for the host itself can only be refused.
func (h HookSite) Count(k *host.Kernel, read func(p Place, hook string) (Counters, error)) (sum Counters, err error) {
	for _, p := range h.Places() {
		for _, hook := range p.Hooks {
			var c Counters
			if err := k.Do(p.NS, func() (err error) {
				c, err = read(p, hook)
				return err
			}); err != nil {
				return Counters{}, err
			}
			sum.Refused += c.Refused
			if hook != "OUTPUT" && !p.Guards(hook) {
				sum.Allowed += c.Allowed
			}
		}
	}
	return sum, nil
}

// NoteMemory notes rules_memory if the kernel reports it exactly: the sum of what read returns for each place.
// Otherwise the estimate that was noted when the rules were loaded stays.
func (h HookSite) NoteMemory(k *host.Kernel, read func(p Place) (int64, error)) error {
	var sum int64
	for _, p := range h.Places() {
		if err := k.Do(p.NS, func() error {
			n, err := read(p)
			sum += n
			return err
		}); errors.Is(err, errors.ErrUnsupported) {
			return nil
		} else if err != nil {
			return err
		}
	}
	k.Metric("rules_memory", float64(sum))
	return nil
}

// RefuseHooks returns why iptables cannot enforce the list here, "" if it can: packets do not pass it, or see
// [Where.Hides].
func (w Where) RefuseHooks(p part.Params) string {
	switch w.Point {
	case network.AtBridge, network.AtForward, network.InContainer:
		return cmp.Or(w.Unbound(p), w.Hides(p))
	}
	return "under " + w.Network + " packets do not pass iptables, because they are forwarded " + w.Point.String()
}

// Hides returns why a stateless list cannot be enforced here: translation hides which container behind the address of
// another host sends, and an answer to that address may be for any of them. It returns "" if it can be enforced.
func (w Where) Hides(p part.Params) string {
	if w.Translated && w.Hosts > 1 && !p.On(Stateful) {
		return "across hosts " + w.Network + " hides the source container, so only connection tracking can tell answers " +
			"from requests (use stateful=true)"
	}
	return ""
}

// Netfilter is what the kernel's netfilter does with fragments: connection tracking puts packets together
// (nf_defrag_ipv4, nf_defrag_ipv6), and nothing else does.
func Netfilter(p part.Params) Fragments {
	if p.On(Stateful) {
		return Reassembled
	}
	return ByAddress
}

// Tracked is what connection tracking does with errors of ICMP: they are of the connection that they quote
// (nf_conntrack_inet_error), and without it they are of none.
func Tracked(p part.Params) Errors {
	if p.On(Stateful) {
		return ByConnection
	}
	return Refused
}

// Follows is for filters that look behind the headers of IPv6: netfilter does by ipv6_find_hdr
// (net/ipv6/exthdrs_core.c).
func Follows(part.Params) Extensions { return Followed }

// Steps are the kinds of steps of a filter at hooks of the kernel: its own, which empty returns, and those that such
// filters share.
func Steps(empty func() host.Step) map[string]func() host.Step {
	return map[string]func() host.Step{
		empty().Kind():  empty,
		Frames{}.Kind(): func() host.Step { return new(Frames) },
		Bound{}.Kind():  func() host.Step { return new(Bound) },
	}
}
