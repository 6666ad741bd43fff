package filter

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/conntrack"
)

// protocolTCP is that of IP (RFC 9293).
const protocolTCP = 6

// Lasting returns, in words, those of some tracked flows that run between containers of the list although the list does
// not allow them: a filter with connection tracking lets their packets pass for as long as they last. Translated
// addresses count, too. Containers are known by the rules that allow them something.
func (l List) Lasting(tracked []conntrack.Flow) []string {
	ends, rules := map[netip.Addr]bool{}, map[[2]netip.Addr][]Rule{}
	for _, r := range l.Allowed {
		ends[r.Source], ends[r.Sink] = true, true
		between := [2]netip.Addr{r.Source, r.Sink}
		rules[between] = append(rules[between], r)
	}
	var list []string
	for _, f := range tracked {
		from, to := f.Original.Source, f.Reply.Source // as seen between both translations
		if !f.Answered || !ends[from.Addr()] && !ends[f.Reply.Destination.Addr()] ||
			!ends[to.Addr()] && !ends[f.Original.Destination.Addr()] ||
			begins(rules, f) {
			continue
		}
		name, known := map[uint8]string{
			protocolICMP: "icmp", protocolTCP: "tcp", protocolUDP: "udp", protocolICMPv6: "icmpv6",
		}[f.Protocol]
		if !known {
			name = fmt.Sprintf("protocol %d", f.Protocol)
		}
		list = append(list, fmt.Sprintf("connection %s %s → %s: still passes, and no rule allows it", name, saysEnd(from),
			saysEnd(to)))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func saysEnd(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return fmt.Sprintf("%s port %d", a.Addr(), a.Port())
}

// begins says whether rules, by their source and sink, allow a flow in one of its two directions. It tries the
// addresses before and behind translation.
func begins(rules map[[2]netip.Addr][]Rule, f conntrack.Flow) bool {
	allows := func(source, sink netip.AddrPort) bool {
		return slices.ContainsFunc(rules[[2]netip.Addr{source.Addr(), sink.Addr()}], func(r Rule) bool {
			return r.matches(f.Protocol, source, sink)
		})
	}
	for _, source := range []netip.AddrPort{f.Original.Source, f.Reply.Destination} {
		for _, sink := range []netip.AddrPort{f.Original.Destination, f.Reply.Source} {
			if allows(source, sink) || allows(sink, source) {
				return true
			}
		}
	}
	return false
}

// matches says whether the rule, which is between these addresses, allows these ports.
func (r Rule) matches(protocol uint8, source, sink netip.AddrPort) bool {
	switch protocol {
	case protocolICMP, protocolICMPv6:
		return !r.Published
	case protocolTCP, protocolUDP:
		return between(r.First, sink.Port(), r.Last) && between(r.SourceFirst, source.Port(), r.SourceLast)
	}
	return false
}

func between[T cmp.Ordered](first, n, last T) bool { return first <= n && n <= last }
