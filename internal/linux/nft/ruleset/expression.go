package ruleset

import (
	"encoding/binary"
	"slices"
)

// A Rule is the expressions of one rule as the kernel takes them, NFTA_RULE_EXPRESSIONS. Its methods append to it what
// a packet is asked next: it goes on as long as the answer is yes. The zero value lets every packet through to the next
// expression.
type Rule []byte

// A Register holds what was read of a packet. There are 16 of four bytes each, one behind the other.
type Register uint32

// Word is register n of four bytes, from 0. The kernel says the first of every four by another number
// (nft_dump_register, net/netfilter/nf_tables_api.c).
func Word(n int) Register {
	if n%4 == 0 {
		return Register(1 + n/4) // NFT_REG_1
	}
	return Register(8 + n) // NFT_REG32_00
}

// A Base is what offsets count from.
type Base uint32

// Headers from which offsets count, enum nft_payload_bases.
const (
	LinkHeader      Base = 0 // of Ethernet, with the tag of a VLAN where there is one
	NetworkHeader   Base = 1
	TransportHeader Base = 2
)

// A Meta is something known of a packet besides what it holds, enum nft_meta_keys.
type Meta uint32

// What is known.
const (
	EtherType Meta = 1  // in network order, as of struct sk_buff's protocol
	InLink    Meta = 4  // the index, in the machine's order
	OutLink   Meta = 5  // likewise
	InName    Meta = 6  // the name of the link, LinkName bytes, with zeros behind
	Family    Meta = 15 // one byte: NFPROTO_IPV4 or NFPROTO_IPV6
	Protocol  Meta = 16 // one byte: what the transport header is
)

// LinkName is how many bytes the name of a link takes: IFNAMSIZ, include/uapi/linux/if.h.
const LinkName = 16

// States of connections, enum ip_conntrack_info as bits (NF_CT_STATE_BIT).
const (
	Established uint32 = 1 << 1
	Related     uint32 = 1 << 2
)

// Attributes of expressions, enum nft_list_attributes, nft_expr_attributes, nft_data_attributes,
// nft_verdict_attributes.
const (
	listElement = 1
	exprName    = 1
	exprData    = 2
	dataValue   = 1
	dataVerdict = 2
	verdictCode = 1
	verdictTo   = 2
)

// Verdicts, enum nft_verdicts and include/uapi/linux/netfilter.h.
const (
	verdictDrop   = 0
	verdictAccept = 1
	verdictJump   = 0xffff_fffd // -3
	verdictGoto   = 0xffff_fffc // -4
)

// expression appends one, whose attributes f appends.
func (r Rule) expression(name string, f func([]byte) []byte) Rule {
	element := len(r)
	b := open(r, listElement)
	b = text(b, exprName, name)
	data := len(b)
	b = f(open(b, exprData))
	shut(b, data)
	shut(b, element)
	return b
}

// Load reads so many bytes of the packet. A packet that has not as many, or no such header as fragments that are not
// the first, is no longer asked.
func (r Rule) Load(to Register, base Base, offset, length uint32) Rule {
	return r.expression("payload", func(b []byte) []byte {
		return number(number(number(number(b, 1, uint32(to)), 2, uint32(base)), 3, offset), 4, length)
	})
}

// LoadMeta reads what is known of the packet.
func (r Rule) LoadMeta(to Register, m Meta) Rule {
	return r.expression("meta", func(b []byte) []byte { return number(number(b, 2, uint32(m)), 1, uint32(to)) })
}

// LoadState reads the state of the packet's connection. It turns connection tracking on in the namespace.
func (r Rule) LoadState(to Register) Rule {
	return r.expression("ct", func(b []byte) []byte { return number(number(b, 1, uint32(to)), 2, 0) }) // NFT_CT_STATE
}

// LoadExtension reads a field of an extension header of IPv6. A packet without such a header is no longer asked.
func (r Rule) LoadExtension(to Register, header byte, offset, length uint32) Rule {
	return r.expression("exthdr", func(b []byte) []byte {
		b = attribute(number(b, 1, uint32(to)), 2, header)
		return number(number(number(number(b, 3, offset), 4, length), 5, 0), 6, 0) // no flags, NFT_EXTHDR_OP_IPV6
	})
}

// Mask keeps some bits of a register.
func (r Rule) Mask(in Register, mask ...byte) Rule {
	return r.expression("bitwise", func(b []byte) []byte {
		// NFT_BITWISE_MASK_XOR
		b = number(number(number(number(b, 1, uint32(in)), 2, uint32(in)), 3, uint32(len(mask))), 6, 0)
		var none [16]byte
		return data(data(b, 4, mask), 5, none[:len(mask)])
	})
}

// Equal asks whether a register holds these bytes.
func (r Rule) Equal(in Register, want ...byte) Rule { return r.compare(in, 0, want) }

// Differ asks whether it holds others.
func (r Rule) Differ(in Register, want ...byte) Rule { return r.compare(in, 1, want) }

func (r Rule) compare(in Register, operation uint32, want []byte) Rule {
	return r.expression("cmp", func(b []byte) []byte {
		return data(number(number(b, 1, uint32(in)), 2, operation), 3, want)
	})
}

// Between asks whether a register holds a number of two bytes in network order from first to last.
func (r Rule) Between(in Register, first, last uint16) Rule {
	var from, to [2]byte
	binary.BigEndian.PutUint16(from[:], first)
	binary.BigEndian.PutUint16(to[:], last)
	if first == last {
		return r.Equal(in, from[:]...)
	}
	return r.expression("range", func(b []byte) []byte {
		return data(data(number(number(b, 1, uint32(in)), 2, 0), 3, from[:]), 4, to[:])
	})
}

// In asks whether a set has the element that begins at a register.
func (r Rule) In(set string, key Register) Rule {
	return r.expression("lookup", func(b []byte) []byte { return number(number(text(b, 1, set), 2, uint32(key)), 5, 0) })
}

// Map goes to the chain of the element that begins at a register. A packet that has none is no longer asked.
func (r Rule) Map(set string, key Register) Rule {
	return r.expression("lookup", func(b []byte) []byte {
		return number(number(number(text(b, 1, set), 2, uint32(key)), 3, 0), 5, 0) // NFT_REG_VERDICT
	})
}

// Count counts the packet.
func (r Rule) Count() Rule {
	return r.expression("counter", func(b []byte) []byte {
		var none [8]byte
		return attribute(attribute(b, counterBytes, none[:]...), counterPackets, none[:]...)
	})
}

// enum nft_counter_attributes.
const (
	counterBytes   = 1
	counterPackets = 2
)

// Accept lets the packet pass.
func (r Rule) Accept() Rule { return r.verdict(verdictAccept, "") }

// Drop drops it.
func (r Rule) Drop() Rule { return r.verdict(verdictDrop, "") }

// Jump goes through a chain and comes back where it says nothing.
func (r Rule) Jump(chain string) Rule { return r.verdict(verdictJump, chain) }

// Goto goes through a chain and does not come back.
func (r Rule) Goto(chain string) Rule { return r.verdict(verdictGoto, chain) }

func (r Rule) verdict(code uint32, chain string) Rule {
	return r.expression("immediate", func(b []byte) []byte {
		b = number(b, 1, 0) // NFT_REG_VERDICT
		at := len(b)
		b = open(b, 2)
		b = verdict(b, code, chain)
		shut(b, at)
		return b
	})
}

// verdict appends an NFTA_DATA_VERDICT.
func verdict(b []byte, code uint32, chain string) []byte {
	at := len(b)
	b = number(open(b, dataVerdict), verdictCode, code)
	if chain != "" {
		b = text(b, verdictTo, chain)
	}
	shut(b, at)
	return b
}

// data appends an attribute that holds a value.
func data(b []byte, kind uint16, value []byte) []byte {
	at := len(b)
	b = attribute(open(b, kind), dataValue, value...)
	shut(b, at)
	return b
}

// An attribute is a length, a kind and what it holds, up to the next multiple of four bytes: struct nlattr,
// include/uapi/linux/netlink.h.
const (
	headerLength = 4
	// NLA_TYPE_MASK: without the bit that says nested, which old tables of the kernel do not ask for and some set
	kindMask = 1<<14 - 1
)

func attribute(b []byte, kind uint16, value ...byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(headerLength+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return pad(append(b, value...))
}

func number(b []byte, kind uint16, value uint32) []byte {
	b = binary.NativeEndian.AppendUint16(b, headerLength+4)
	b = binary.NativeEndian.AppendUint16(b, kind)
	return binary.BigEndian.AppendUint32(b, value)
}

func text(b []byte, kind uint16, value string) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(headerLength+len(value)+1))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return pad(append(append(b, value...), 0))
}

// open begins an attribute that holds others, shut ends it.
func open(b []byte, kind uint16) []byte { return attribute(b, kind) }

func shut(b []byte, at int) { binary.NativeEndian.PutUint16(b[at:], uint16(len(b)-at)) }

func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// each calls f for every attribute. What is cut short ends it.
func each(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= headerLength {
		length := int(binary.NativeEndian.Uint16(b))
		if length < headerLength || length > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&kindMask, b[headerLength:length])
		b = b[min(len(b), (length+3)&^3):]
	}
}

// find returns the first attribute of a kind, nil where there is none.
func find(b []byte, kind uint16) (value []byte) {
	each(b, func(k uint16, v []byte) {
		if k == kind && value == nil {
			value = v
		}
	})
	return value
}

// word reads a text.
func word(value []byte) string {
	if i := slices.Index(value, 0); i >= 0 {
		value = value[:i]
	}
	return string(value)
}
