package ruleset

import (
	"encoding/binary"
	"slices"
)

// A Rule holds the expressions of one rule in the kernel's format, NFTA_RULE_EXPRESSIONS. Each method appends one
// expression. Evaluation goes on as long as expressions match. The zero value matches every packet.
type Rule []byte

// A Register holds data read from a packet. There are 16 consecutive registers of four bytes each.
type Register uint32

// Word returns register n of four bytes, from 0. The kernel has another number for the first of every four
// (nft_dump_register, net/netfilter/nf_tables_api.c).
func Word(n int) Register {
	if n%4 == 0 {
		return Register(1 + n/4) // NFT_REG_1
	}
	return Register(8 + n) // NFT_REG32_00
}

// A Base is the header from which an offset counts.
type Base uint32

// The bases of offsets, enum nft_payload_bases.
const (
	LinkHeader      Base = 0 // the Ethernet header, with a VLAN tag if there is one
	NetworkHeader   Base = 1
	TransportHeader Base = 2
)

// A Meta is a property of a packet that is not in its bytes, enum nft_meta_keys.
type Meta uint32

// The properties.
const (
	EtherType Meta = 1  // in network byte order, like the protocol of struct sk_buff
	InLink    Meta = 4  // the index, in the machine's byte order
	OutLink   Meta = 5  // the same
	InName    Meta = 6  // the name of the link, LinkName bytes, padded with zeros
	OutName   Meta = 7  // the same
	Family    Meta = 15 // one byte: NFPROTO_IPV4 or NFPROTO_IPV6
	Protocol  Meta = 16 // one byte: the type of the transport header
)

// LinkName is the length of a link's name in bytes: IFNAMSIZ, include/uapi/linux/if.h.
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

// expression appends an expression, whose attributes f appends.
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

// Load reads bytes of the packet. It does not match a packet that is too short or lacks the header, such as a fragment
// other than the first.
func (r Rule) Load(to Register, base Base, offset, length uint32) Rule {
	return r.expression("payload", func(b []byte) []byte {
		return number(number(number(number(b, 1, uint32(to)), 2, uint32(base)), 3, offset), 4, length)
	})
}

// LoadMeta reads a property of the packet.
func (r Rule) LoadMeta(to Register, m Meta) Rule {
	return r.expression("meta", func(b []byte) []byte { return number(number(b, 2, uint32(m)), 1, uint32(to)) })
}

// LoadState reads the state of the packet's connection. It switches on connection tracking in the namespace.
func (r Rule) LoadState(to Register) Rule {
	return r.expression("ct", func(b []byte) []byte { return number(number(b, 1, uint32(to)), 2, 0) }) // NFT_CT_STATE
}

// LoadExtension reads a field of an IPv6 extension header. It does not match a packet without that header.
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

// Equal matches if a register holds these bytes.
func (r Rule) Equal(in Register, want ...byte) Rule { return r.compare(in, 0, want) }

// Differ matches if a register does not hold these bytes.
func (r Rule) Differ(in Register, want ...byte) Rule { return r.compare(in, 1, want) }

func (r Rule) compare(in Register, operation uint32, want []byte) Rule {
	return r.expression("cmp", func(b []byte) []byte {
		return data(number(number(b, 1, uint32(in)), 2, operation), 3, want)
	})
}

// Between matches if a register holds a two-byte number in network byte order from first to last.
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

// In matches if a set has the element that begins at a register.
func (r Rule) In(set string, key Register) Rule {
	return r.expression("lookup", func(b []byte) []byte { return number(number(text(b, 1, set), 2, uint32(key)), 5, 0) })
}

// Map goes to the chain of the map's element that begins at a register. It does not match a packet without such an
// element.
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

// Accept accepts the packet.
func (r Rule) Accept() Rule { return r.verdict(verdictAccept, "") }

// Drop drops the packet.
func (r Rule) Drop() Rule { return r.verdict(verdictDrop, "") }

// Jump calls a chain and returns from it if it does not decide.
func (r Rule) Jump(chain string) Rule { return r.verdict(verdictJump, chain) }

// Goto goes to a chain and does not return from it.
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

// data appends an attribute with a value.
func data(b []byte, kind uint16, value []byte) []byte {
	at := len(b)
	b = attribute(open(b, kind), dataValue, value...)
	shut(b, at)
	return b
}

// An attribute has a length, a type and a value, padded to a multiple of four bytes: struct nlattr,
// include/uapi/linux/netlink.h.
const (
	headerLength = 4
	// NLA_TYPE_MASK: without the bit for nested attributes, which only some kernel tables set or check
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

// open begins an attribute that contains others; shut ends it.
func open(b []byte, kind uint16) []byte { return attribute(b, kind) }

func shut(b []byte, at int) { binary.NativeEndian.PutUint16(b[at:], uint16(len(b)-at)) }

func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// each calls f for every attribute. It stops at a truncated one.
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

// find returns the first attribute of a type; nil if there is none.
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
