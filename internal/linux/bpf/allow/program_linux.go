package allow

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/nettoll/nettoll/internal/linux/bpf"
)

// Compiled rules form a decision tree with a field of the packet at each level: the source, the sink of that source,
// the ports of that pair. Values at one level are compared one after another, in the order of the rules. So a packet
// for a late rule is compared with the sources of all earlier rules. After a match there is no backtracking, because no
// other rule has these values. The words of IPv6 addresses that differ most come first.
//
// The shape also suits the verifier. It keeps the other side of every branch until it gets there, at most 8192 of them
// (kernel/bpf/verifier.c, BPF_COMPLEXITY_LIMIT_JMP_SEQ). Here the inside of each branch ends, so only one is kept for
// each level.

// The names of the functions of allow.c that are replaced, and their results.
const (
	function4 = "match4"
	function6 = "match6"

	none, pairOnly, pairAndPort = 0, 1, 2
)

// leaf is a rule in the form of packet fields.
type leaf struct {
	fields []uint64
	ports  portRange
}

// leaf4 converts a rule into the arguments of match4: R1 is the source and R2 the sink.
func leaf4(r Rule) leaf {
	source, sink := r.Source.As4(), r.Sink.As4()
	return leaf{
		[]uint64{uint64(binary.NativeEndian.Uint32(source[:])), uint64(binary.NativeEndian.Uint32(sink[:]))},
		r.ports(),
	}
}

// leaf6 converts a rule into the values that match6 loads.
func leaf6(r Rule) leaf {
	source, sink := r.Source.As16(), r.Sink.As16()
	word := binary.NativeEndian.Uint64
	return leaf{[]uint64{word(source[8:]), word(source[:8]), word(sink[8:]), word(sink[:8])}, r.ports()}
}

// A shape says in which registers a function has the fields of a packet.
type shape struct {
	fields []asm.Register
	port   asm.Register // of the sink
	other  asm.Register // of the source
	free   asm.Register
	wide   bool // fields have 64 bits
}

func shape4() shape {
	return shape{fields: []asm.Register{asm.R1, asm.R2}, port: asm.R3, other: asm.R4, free: asm.R5}
}

func shape6() shape {
	return shape{
		fields: []asm.Register{asm.R7, asm.R6, asm.R9, asm.R8}, port: asm.R2, other: asm.R5, free: asm.R4,
		wide: true,
	}
}

// prologue6 loads the fields of the pair at the address in R1.
func prologue6() asm.Instructions {
	return append(append(asm.Instructions{skip(asm.JNE.Imm(asm.R1, 0, ""), 2)}, answer(none)...),
		asm.Mov.Reg(asm.R5, asm.R3), // R3 holds the values to compare with
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R7, asm.R1, 8, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, 16, asm.DWord),
		asm.LoadMem(asm.R9, asm.R1, 24, asm.DWord),
	)
}

// skip makes a jump skip this many instructions of 8 bytes.
func skip(jump asm.Instruction, over int) asm.Instruction {
	jump.Offset = int16(over)
	return jump
}

// answer returns from a function.
func answer(found int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, found), asm.Return()}
}

// errLong reports that the code for one source is too long for a jump.
var errLong = errors.New("more rules of one source than a jump of a program passes over (hint: match=hash)")

// tree returns the decisions for some rules from a level on; all fields before are equal.
func (s shape) tree(rules []leaf, level int) (list asm.Instructions, size int, err error) {
	if level == len(s.fields) {
		list = s.ports(rules)
		return list, len(list), nil
	}
	var order []uint64
	groups := map[uint64][]leaf{}
	for _, r := range rules {
		field := r.fields[level]
		if _, ok := groups[field]; !ok {
			order = append(order, field)
		}
		groups[field] = append(groups[field], r)
	}
	for _, field := range order {
		inside, n, err := s.tree(groups[field], level+1)
		if err != nil {
			return nil, 0, err
		}
		if n > math.MaxInt16 {
			return nil, 0, errLong
		}
		if s.wide {
			list = append(list, asm.LoadImm(asm.R3, int64(field), asm.DWord), skip(asm.JNE.Reg(s.fields[level], asm.R3, ""), n))
			size += 3
		} else {
			list = append(list, skip(asm.JNE.Imm32(s.fields[level], int32(field), ""), n))
			size++
		}
		list = append(list, inside...)
		size += n
	}
	return append(list, answer(none)...), size + 2, nil
}

// ports returns the decisions for a pair.
func (s shape) ports(rules []leaf) (list asm.Instructions) {
	for _, r := range rules {
		inside := s.within(s.other, r.ports.SourceFirst, r.ports.SourceLast, answer(pairAndPort))
		list = append(list, s.within(s.port, r.ports.First, r.ports.Last, inside)...)
	}
	return append(list, answer(pairOnly)...)
}

// within returns inside, preceded by the check that the port is between first and last.
func (s shape) within(port asm.Register, first, last uint16, inside asm.Instructions) asm.Instructions {
	var question asm.Instructions
	switch {
	case first == 0 && last == math.MaxUint16:
	case first == last:
		question = asm.Instructions{skip(asm.JNE.Imm32(port, int32(first), ""), len(inside))}
	default:
		question = asm.Instructions{
			asm.Mov.Reg32(s.free, port),
			asm.Sub.Imm32(s.free, int32(first)),
			skip(asm.JGT.Imm32(s.free, int32(last-first), ""), len(inside)), // below first it is large: unsigned
		}
	}
	return append(question, inside...)
}

// compile replaces the placeholder functions with the rules of a list, and more.
func (l List) compile(spec *ebpf.CollectionSpec, more []Rule) error {
	var text []byte // all rules
	var functions [2]asm.Instructions
	for i, v6 := range []bool{false, true} {
		var leaves []leaf
		add := func(r Rule) {
			of := leaf4
			if v6 {
				of = leaf6
			}
			one := of(r)
			leaves = append(leaves, one)
			for _, f := range one.fields {
				text = binary.BigEndian.AppendUint64(text, f)
			}
			for _, port := range []uint16{one.ports.First, one.ports.Last, one.ports.SourceFirst, one.ports.SourceLast} {
				text = binary.BigEndian.AppendUint16(text, port)
			}
		}
		for _, r := range more { // first, because they are few
			if r.Sink.Is6() == v6 {
				add(r)
			}
		}
		for r := range l.Rules(v6) {
			add(r)
		}
		s, prologue := shape4(), asm.Instructions{}
		if v6 {
			s, prologue = shape6(), prologue6()
		}
		tree, _, err := s.tree(leaves, 0)
		if err != nil {
			return fmt.Errorf("compile the list: %w", err)
		}
		functions[i] = append(prologue, tree...)
	}
	for of, p := range spec.Programs {
		if of == objectProgNettollToward { // it asks no list
			continue
		}
		for i, name := range []string{function4, function6} {
			var err error
			if p.Instructions, err = substitute(p.Instructions, name, slices.Clone(functions[i])); err != nil {
				return fmt.Errorf("compile the list: %w", err)
			}
		}
	}
	digest := sha256.Sum256(text)
	return spec.Variables[objectVarDigest].Set([16]byte(digest[:]))
}

// substitute replaces the instructions of a function.
func substitute(list asm.Instructions, name string, instead asm.Instructions) (asm.Instructions, error) {
	first := -1
	for i := range list {
		if list[i].Symbol() == name {
			first = i
			break
		}
	}
	if first < 0 {
		return nil, fmt.Errorf("the program has no function %q", name)
	}
	behind := first + 1
	for behind < len(list) && list[behind].Symbol() == "" {
		behind++
	}
	// The types of the function, and its name, are with its first instruction.
	instead[0] = instead[0].WithMetadata(list[first].Metadata)
	all := make(asm.Instructions, 0, first+len(instead)+len(list)-behind)
	return append(append(append(all, list[:first]...), instead...), list[behind:]...), nil
}

// replace compiles a list with what was added to it, and puts it in the place of the programs at all links. Their flows
// and counters go on.
func replace(p programs, l List, links *bpf.Links) error {
	maps := p.frames().Maps
	more4, err := added[[4]byte](maps[objectMapRules4])
	if err != nil {
		return err
	}
	more6, err := added[[16]byte](maps[objectMapRules6])
	if err != nil {
		return err
	}
	spec, err := specify(l, links, append(more4, more6...))
	if err != nil {
		return err
	}
	same := map[string]*ebpf.Map{}
	for name, m := range maps {
		if name != constants && spec.Maps[name] != nil {
			same[name] = m
			spec.Maps[name].MaxEntries = m.MaxEntries()
		}
	}
	loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: same})
	if err != nil {
		return bpf.Explain("load the changed program", bpf.TCXIngress, err)
	}
	defer loaded.Close() // the links keep it loaded
	return bpf.EachLink(func(hooked link.Link) error {
		info, err := hooked.Info()
		if err != nil {
			return fmt.Errorf("read links of programs: %w", err)
		}
		for name, one := range p {
			if info.Program != one.ID {
				continue
			}
			if err := hooked.Update(loaded.Programs[name]); err != nil {
				return fmt.Errorf("put a changed program in the place of program %d: %w", one.ID, err)
			}
		}
		return nil
	})
}

// added returns the rules that were added to the compiled ones.
func added[A address](m *ebpf.Map) (list []Rule, err error) {
	entries, err := all[pair[A], ports](m)
	if err != nil {
		return nil, fmt.Errorf("read added rules: %w", err)
	}
	for k, v := range entries {
		source, _ := netip.AddrFromSlice(bytesOf(k.Source))
		sink, _ := netip.AddrFromSlice(bytesOf(k.Sink))
		for _, r := range v.Range[:v.N] {
			list = append(list, Rule{source, sink, r.First, r.Last, r.SourceFirst, r.SourceLast})
		}
	}
	return list, nil
}

func bytesOf[A address](a A) []byte {
	switch a := any(a).(type) {
	case [4]byte:
		return a[:]
	case [16]byte:
		return a[:]
	}
	return nil
}
