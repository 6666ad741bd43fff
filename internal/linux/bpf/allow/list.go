package allow

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// Lookup methods of a list.
const (
	Hash    = "hash"    // by source and sink
	LPM     = "lpm"     // a trie of sources, and a hash of its result and the sink
	Program = "program" // instructions, one comparison after another
)

// Ways lists the lookup methods.
func Ways() []string { return []string{Hash, LPM, Program} }

// MaxCompiled is how many rules of each family a program can hold in addition to those of the pairs. A rule takes about
// ten instructions for IPv4 and about twenty-five for IPv6. The kernel's verifier checks up to a million
// (include/linux/bpf.h, BPF_COMPLEXITY_LIMIT_INSNS), and 28,000 rules of each family stayed below that. But the kernel
// does not return programs of more than 4 MiB of instructions (kernel/bpf/syscall.c, bpf_insn_prepare_dump), so they
// could not be verified.
const MaxCompiled = 10_000

// A List says what may pass, and where that is decided.
type List struct {
	// Way is one of [Ways].
	Way string
	// Stateful says that answers pass by a table of flows. Otherwise they pass by the reversed rules.
	Stateful bool
	// OneLink says that the links are ports of a bridge, whose containers resolve each other (RFC 4861).
	OneLink bool
	// Links are the names of those at whose ingress the programs are: one on links that carry Ethernet frames, another on
	// those that do not.
	Links []string
	// Uplink is that of the Links, if any, at which packets for the host itself pass: they are none of containers. Frames
	// of the EtherType pass there besides, if it is not 0.
	Uplink    string
	EtherType uint16
	// Layers are further Links at which packets for the host itself pass.
	Layers []string
	// Rules yields those of a family.
	Rules func(v6 bool) iter.Seq[Rule]
	// Bound are the addresses that are bound to links. If it is nil, none are; otherwise links without a binding are
	// free.
	Bound []Binding
}

// A Binding holds the allowed addresses of packets of a link: those of their source if they come from there, and those
// of their destination if they go there.
type Binding struct {
	Link string
	MAC  [6]byte
	// Local is the link-local address.
	IPv4, IPv6, Local netip.Addr
}

// A Rule allows a source to send from some of its ports to some ports of a sink, over UDP and TCP, and to send ICMP
// echo requests to it.
type Rule struct {
	Source, Sink netip.Addr
	// First and Last are the ends of the sink's range of ports, inclusive.
	First, Last uint16
	// SourceFirst and SourceLast are the ends of the source's range of ports, inclusive.
	SourceFirst, SourceLast uint16
}

// Counters count decided packets: those allowed by a rule or by a flow, and the others.
type Counters struct{ Allowed, Refused uint64 }

// check returns an error if the list is not valid.
func (l List) check() error {
	if !slices.Contains(Ways(), l.Way) {
		return fmt.Errorf("look into a list by %q (known: %s)", l.Way, strings.Join(Ways(), ", "))
	}
	if len(l.Links) == 0 {
		return fmt.Errorf("decide by a list at no link")
	}
	return nil
}
