package allow

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// Ways to look into a list.
const (
	Hash    = "hash"    // of source and sink
	LPM     = "lpm"     // a trie of sources, and a hash of what it says and the sink
	Program = "program" // instructions, one comparison behind the other
)

// Ways lists them.
func Ways() []string { return []string{Hash, LPM, Program} }

// MaxCompiled is how many rules of each family a program can hold besides those of the pairs. A rule of IPv4 has some
// ten instructions, one of IPv6 some twenty-five; the kernel's verifier looks at a million (include/linux/bpf.h,
// BPF_COMPLEXITY_LIMIT_INSNS), which 28,000 rules of each have not used up. But who asks for a program with more than 4
// MiB of instructions is told nothing at all of it (kernel/bpf/syscall.c, bpf_insn_prepare_dump), and could not verify
// it.
const MaxCompiled = 10_000

// A List is what may pass, and where that is decided.
type List struct {
	// Way is one of [Ways].
	Way string
	// Stateful says that answers pass by a table of flows, otherwise by the rules turned round.
	Stateful bool
	// OneLink says that the links are ports of a bridge, whose containers look for each other (RFC 4861).
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
	// Bound are the addresses that are bound to links. nil: none are; otherwise links that are not among them are free.
	Bound []Binding
}

// A Binding is what may be the source of what comes from a link.
type Binding struct {
	Link string
	MAC  [6]byte
	// Local is the link-local address.
	IPv4, IPv6, Local netip.Addr
}

// A Rule lets a source talk from some of its ports to some ports of a sink, over UDP and TCP, and ask it for ICMP
// echoes.
type Rule struct {
	Source, Sink netip.Addr
	// First and Last are the sink's ports and all between them.
	First, Last uint16
	// SourceFirst and SourceLast are the source's ports and all between them.
	SourceFirst, SourceLast uint16
}

// Counters are packets that were decided, those with a rule or by a flow, and the others.
type Counters struct{ Allowed, Refused uint64 }

// check returns what is wrong with the list.
func (l List) check() error {
	if !slices.Contains(Ways(), l.Way) {
		return fmt.Errorf("look into a list by %q (known: %s)", l.Way, strings.Join(Ways(), ", "))
	}
	if len(l.Links) == 0 {
		return fmt.Errorf("decide by a list at no link")
	}
	return nil
}
