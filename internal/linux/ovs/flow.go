package ovs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Ports of a bridge that are not links (OpenFlow 1.4, section 7.2.1).
const (
	Normal uint32 = 0xfffffffa // the bridge learns and forwards like an ordinary switch
	Local  uint32 = 0xfffffffe // the bridge's own link on the host
)

// Types of Ethernet frames and protocols of IP.
const (
	IPv4 = 0x0800
	IPv6 = 0x86dd
	ARP  = 0x0806

	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// Bits of fields.
const (
	SYN = 0x002 // TCPFlags, RFC 9293 section 3.1
	ACK = 0x010

	First = 1 // Fragment: the first of its packet, or not (nicira-ext.h: NX_IP_FRAG_ANY and NX_IP_FRAG_LATER)
	Later = 3

	New         = 0x01 // Connection (nicira-ext.h, CS_…)
	Established = 0x02
	Related     = 0x04
	Invalid     = 0x10
	Tracked     = 0x20
)

// A Masked is a value with the mask of the bits to compare. With an empty mask, nothing is compared.
type Masked struct{ Value, Mask uint16 }

// Exactly returns a value with all bits compared.
func Exactly(v uint16) Masked { return Masked{v, 0xffff} }

// Flags matches if the bits of on are set and those of off are not.
func Flags(on, off uint16) Masked { return Masked{on, on | off} }

// A Match describes the packets of a flow. The zero value of a field matches any packet.
type Match struct {
	InPort    uint32
	EtherTo   [6]byte
	EtherFrom [6]byte
	Ether     uint16 // ARP, IPv4 or IPv6; the fields below need it
	Protocol  uint8
	From, To  netip.Prefix // for ARP, From is the sender's
	Sender    [6]byte      // for ARP
	Fragment  uint8
	TTL       uint8 // or hop limit
	FromPort  Masked
	ToPort    Masked
	TCPFlags  Masked
	ICMPType  int        // from 1, or -1 for 0
	Code      uint8      // of neighbour discovery (ICMPv6 types 135 and 136), which is 0 (RFC 4861, section 4.3)
	Target    netip.Addr // the address asked for by ARP or neighbour solicitation (ICMPv6 type 135), or that answers (136)
	Option    [6]byte    // of neighbour discovery: the MAC address of its sender or target
	NoOption  bool       // neighbour discovery without that option
	Tracking  Masked     // the state of the connection
}

// A Flow says what a bridge does with some packets. A flow that does nothing drops them.
type Flow struct {
	// Cookie identifies the owner of the flow.
	Cookie   uint64
	Table    uint8
	Priority uint16
	Match    Match

	// Commit records the connection. Track, if not 0, looks up the connection and goes on in that table.
	Commit bool
	Track  uint8
	// Output is a port; 0 means none.
	Output uint32
	// Goto is the next table; 0 means none.
	Goto uint8
}

// Classes of fields (OpenFlow 1.4, section 7.2.3.3; meta-flow.h).
const (
	classNicira = 0x0001
	classBasic  = 0x8000
	classOther  = 0xffff
	onf         = 0x4f4e4600
	nicira      = 0x00002320
)

// field appends a field of a match. If all bits are compared, it writes no mask.
func field(b []byte, class uint16, number uint8, value, mask []byte) []byte {
	exact := len(mask) == 0 || !slices.ContainsFunc(mask, func(x byte) bool { return x != 0xff })
	b = binary.BigEndian.AppendUint16(b, class)
	prefix := 0
	if class == classOther {
		prefix = 4
	}
	if exact {
		b = append(b, number<<1, byte(prefix+len(value)))
	} else {
		b = append(b, number<<1|1, byte(prefix+2*len(value)))
	}
	if class == classOther {
		b = binary.BigEndian.AppendUint32(b, onf)
	}
	b = append(b, value...)
	if !exact {
		b = append(b, mask...)
	}
	return b
}

func two(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

func four(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

func masked(b []byte, number uint8, m Masked) []byte {
	if m.Mask == 0 {
		return b
	}
	return field(b, classBasic, number, two(m.Value&m.Mask), two(m.Mask))
}

func prefixed(b []byte, number uint8, p netip.Prefix) []byte {
	if !p.IsValid() || p.Bits() == 0 {
		return b
	}
	address := p.Masked().Addr().AsSlice()
	mask := make([]byte, len(address))
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return field(b, classBasic, number, address, mask)
}

// fields returns the match in the order that OpenFlow requires: a field's prerequisites come before it.
func (m Match) fields() []byte {
	var b []byte
	if m.InPort != 0 {
		b = field(b, classBasic, 0, four(m.InPort), nil)
	}
	if m.EtherTo != [6]byte{} {
		b = field(b, classBasic, 3, m.EtherTo[:], nil)
	}
	if m.EtherFrom != [6]byte{} {
		b = field(b, classBasic, 4, m.EtherFrom[:], nil)
	}
	if m.Ether != 0 {
		b = field(b, classBasic, 5, two(m.Ether), nil)
	}
	if m.Protocol != 0 {
		b = field(b, classBasic, 10, []byte{m.Protocol}, nil)
	}
	if m.TTL != 0 {
		b = field(b, classNicira, 29, []byte{m.TTL}, nil)
	}
	if m.Fragment != 0 {
		b = field(b, classNicira, 26, []byte{m.Fragment}, nil)
	}
	switch m.Ether {
	case IPv6:
		b = prefixed(prefixed(b, 26, m.From), 27, m.To)
	case ARP:
		b = prefixed(b, 22, m.From)
	default:
		b = prefixed(prefixed(b, 11, m.From), 12, m.To)
	}
	switch m.Protocol {
	case TCP:
		b = masked(masked(b, 13, m.FromPort), 14, m.ToPort)
		if m.TCPFlags.Mask != 0 {
			b = field(b, classOther, 42, two(m.TCPFlags.Value), two(m.TCPFlags.Mask))
		}
	case UDP:
		b = masked(masked(b, 15, m.FromPort), 16, m.ToPort)
	case ICMP:
		b = icmp(b, 19, m.ICMPType)
	case ICMPv6:
		b = icmp(b, 29, m.ICMPType)
		if m.ICMPType == solicitation || m.ICMPType == advertisement {
			b = field(b, classBasic, 30, []byte{m.Code}, nil)
		}
	}
	if m.Target.IsValid() && m.Ether == ARP {
		b = field(b, classBasic, 23, m.Target.AsSlice(), nil)
	} else if m.Target.IsValid() {
		b = field(b, classBasic, 31, m.Target.AsSlice(), nil)
	}
	if m.Sender != [6]byte{} {
		b = field(b, classBasic, 24, m.Sender[:], nil)
	}
	if m.NoOption || m.Option != [6]byte{} {
		number := uint8(32) // for a solicitation
		if m.ICMPType == advertisement {
			number = 33
		}
		b = field(b, classBasic, number, m.Option[:], nil)
	}
	if m.Tracking.Mask != 0 {
		b = field(b, classNicira, 105, four(uint32(m.Tracking.Value)), four(uint32(m.Tracking.Mask)))
	}
	return b
}

// Types of messages of ICMPv6 (RFC 4861, sections 4.3 and 4.4).
const (
	solicitation  = 135
	advertisement = 136
)

// Exact returns a flow that a table needs in which others match what messages of neighbour discovery say. It drops
// messages that no receiver takes (RFC 4861, section 7.1.1).
//
// The daemon hands a flow to the kernel's datapath with only those fields compared that it has looked at, and what
// these messages say only if both type and code are among them (odp_flow_key_from_flow__, lib/odp-util.c). A table in
// which the target of a message is none of those that are asked for is left before its type is looked at, because
// fields are compared in stages (lib/classifier.c). The kernel then does with all messages of a port what was right for
// the first one. This flow is looked at before all others, and compares type and code.
func Exact(cookie uint64, table uint8) Flow {
	return Flow{
		Cookie: cookie, Table: table, Priority: 0xffff,
		Match: Match{Ether: IPv6, Protocol: ICMPv6, ICMPType: solicitation, Code: 0xff},
	}
}

func icmp(b []byte, number uint8, kind int) []byte {
	if kind == 0 {
		return b
	}
	return field(b, classBasic, number, []byte{byte(max(0, kind))}, nil)
}

// Lengths and numbers of instructions and actions (OpenFlow 1.4, sections 7.2.4 and 7.2.5; ofp-actions.c, struct
// nx_action_conntrack).
const (
	instructionGoto  = 1
	instructionApply = 4
	actionOutput     = 0
	actionOther      = 0xffff
	subtypeCT        = 35
	committed        = 1
	noTable          = 0xff
)

// instructions returns the flow's instructions.
func (f Flow) instructions() []byte {
	var actions []byte
	track := func(flags uint16, table uint8) {
		actions = binary.BigEndian.AppendUint16(actions, actionOther)
		actions = binary.BigEndian.AppendUint16(actions, 24)
		actions = binary.BigEndian.AppendUint32(actions, nicira)
		actions = binary.BigEndian.AppendUint16(actions, subtypeCT)
		actions = binary.BigEndian.AppendUint16(actions, flags)
		actions = append(actions, 0, 0, 0, 0, 0, 0, table, 0, 0, 0, 0, 0) // in zone 0, without a helper
	}
	if f.Commit {
		track(committed, noTable)
	}
	if f.Track != 0 {
		track(0, f.Track)
	}
	if f.Output != 0 {
		actions = binary.BigEndian.AppendUint16(actions, actionOutput)
		actions = binary.BigEndian.AppendUint16(actions, 16)
		actions = binary.BigEndian.AppendUint32(actions, f.Output)
		actions = append(actions, make([]byte, 8)...)
	}
	var b []byte
	if len(actions) > 0 {
		b = binary.BigEndian.AppendUint16(b, instructionApply)
		b = binary.BigEndian.AppendUint16(b, uint16(8+len(actions)))
		b = append(append(b, 0, 0, 0, 0), actions...)
	}
	if f.Goto != 0 {
		b = binary.BigEndian.AppendUint16(b, instructionGoto)
		b = append(b, 0, 8, f.Goto, 0, 0, 0)
	}
	return b
}

// Key returns the same text for equal flows, whoever has written them. It is not meant for people.
func (f Flow) Key() string {
	return key(f.Cookie, f.Table, f.Priority, f.Match.fields(), f.instructions())
}

// key returns the fields of a match, which may be in any order, in a fixed order.
func key(cookie uint64, table uint8, priority uint16, fields, instructions []byte) string {
	var list [][]byte
	for len(fields) >= 4 {
		n := min(len(fields), 4+int(fields[3]))
		list = append(list, fields[:n])
		fields = fields[n:]
	}
	slices.SortFunc(list, bytes.Compare)
	b := binary.BigEndian.AppendUint64(nil, cookie)
	b = append(b, table)
	b = binary.BigEndian.AppendUint16(b, priority)
	for _, f := range list {
		b = append(b, f...)
	}
	return string(append(append(b, 0), instructions...))
}

// String describes the flow in the syntax of ovs-ofctl(8), with enough detail to find it.
func (f Flow) String() string {
	m := f.Match
	parts := []string{fmt.Sprintf("table=%d,priority=%d", f.Table, f.Priority)}
	add := func(given bool, format string, args ...any) {
		if given {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(m.InPort != 0, "in_port=%d", m.InPort)
	add(m.EtherTo != [6]byte{}, "dl_dst=%x", m.EtherTo)
	add(m.EtherFrom != [6]byte{}, "dl_src=%x", m.EtherFrom)
	add(m.Ether != 0, "dl_type=%#x", m.Ether)
	add(m.Protocol != 0, "nw_proto=%d", m.Protocol)
	add(m.From.IsValid(), "src=%s", m.From)
	add(m.To.IsValid(), "dst=%s", m.To)
	add(m.Fragment == First, "ip_frag=first")
	add(m.Fragment == Later, "ip_frag=later")
	add(m.TTL != 0, "nw_ttl=%d", m.TTL)
	add(m.FromPort.Mask != 0, "tp_src=%d/%#x", m.FromPort.Value, m.FromPort.Mask)
	add(m.ToPort.Mask != 0, "tp_dst=%d/%#x", m.ToPort.Value, m.ToPort.Mask)
	add(m.TCPFlags.Mask != 0, "tcp_flags=%#x/%#x", m.TCPFlags.Value, m.TCPFlags.Mask)
	add(m.ICMPType != 0, "icmp_type=%d", max(0, m.ICMPType))
	add(m.Code != 0, "icmp_code=%d", m.Code)
	add(m.Target.IsValid(), "target=%s", m.Target)
	add(m.Sender != [6]byte{}, "arp_sha=%x", m.Sender)
	add(m.NoOption || m.Option != [6]byte{}, "option=%x", m.Option)
	add(m.Tracking.Mask != 0, "ct_state=%#x/%#x", m.Tracking.Value, m.Tracking.Mask)
	return strings.Join(parts, ",")
}

// Between returns the smallest list of values with masks that covers the numbers from first to last.
func Between(first, last uint16) []Masked {
	var list []Masked
	for at, end := int(first), int(last); at <= end; {
		size := 1
		for at&size == 0 && at+2*size-1 <= end && size < 1<<16 {
			size *= 2
		}
		if size == 1<<16 {
			return []Masked{{0, 0}}
		}
		list = append(list, Masked{uint16(at), ^uint16(size - 1)})
		at += size
	}
	return list
}
