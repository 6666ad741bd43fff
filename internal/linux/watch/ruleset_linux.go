package watch

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes of nftables that are read by number (include/uapi/linux/netfilter/nf_tables.h).
const (
	nftaTable   = 1 // NFTA_RULE_TABLE, NFTA_CHAIN_TABLE, NFTA_SET_TABLE, NFTA_SET_ELEM_LIST_TABLE; NFTA_TABLE_NAME
	nftaName    = 2 // NFTA_RULE_CHAIN, NFTA_SET_NAME, NFTA_SET_ELEM_LIST_SET, NFTA_OBJ_NAME, NFTA_FLOWTABLE_NAME
	nftaChain   = 3 // NFTA_CHAIN_NAME
	nftaHandle  = 3 // NFTA_RULE_HANDLE
	nftaRule    = 4 // NFTA_RULE_EXPRESSIONS
	nftaPolicy  = 5 // NFTA_CHAIN_POLICY
	nftaMembers = 3 // NFTA_SET_ELEM_LIST_ELEMENTS
)

// nftables puts what happened to rules of nftables into words: what, and whether it was added or removed.
func nftables(m message) (what, value string, removed, ok bool) {
	kind := m.kind & 0xff
	rest := from(m.data, 4)
	if m.kind>>8 != unix.NFNL_SUBSYS_NFTABLES || rest == nil {
		return "", "", false, false
	}
	table := fmt.Sprintf("table %s %s", nftFamily(m.data[0]), text(attribute(rest, nftaTable)))
	name := text(attribute(rest, nftaName))
	switch kind {
	case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE:
		return "nftables " + table, "present", kind == unix.NFT_MSG_DELTABLE, true
	case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
		value := "present"
		if policy := attribute(rest, nftaPolicy); len(policy) == 4 {
			value = "policy " + verdict(int32(binary.BigEndian.Uint32(policy)), "")
		}
		return fmt.Sprintf("chain %s of nftables %s", text(attribute(rest, nftaChain)), table), value,
			kind == unix.NFT_MSG_DELCHAIN, true
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
		number := uint64(0)
		if handle := attribute(rest, nftaHandle); len(handle) == 8 {
			number = binary.BigEndian.Uint64(handle)
		}
		return fmt.Sprintf("rule %d of chain %s of nftables %s", number, name, table), rule(attribute(rest, nftaRule)),
			kind == unix.NFT_MSG_DELRULE, true
	case unix.NFT_MSG_NEWSET, unix.NFT_MSG_DELSET:
		return fmt.Sprintf("set %s of nftables %s", name, table), "present", kind == unix.NFT_MSG_DELSET, true
	case unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM:
		return fmt.Sprintf("entry %x of set %s of nftables %s", brief(attribute(rest, nftaMembers)), name, table), "present",
			kind == unix.NFT_MSG_DELSETELEM, true
	case unix.NFT_MSG_NEWOBJ, unix.NFT_MSG_DELOBJ, unix.NFT_MSG_NEWFLOWTABLE, unix.NFT_MSG_DELFLOWTABLE:
		return fmt.Sprintf("object %s of nftables %s", name, table), "present",
			kind == unix.NFT_MSG_DELOBJ || kind == unix.NFT_MSG_DELFLOWTABLE, true
	}
	return "", "", false, false
}

// longest is how much of a value is shown that is not put into words, in bytes.
const longest = 32

func brief(b []byte) []byte { return b[:min(len(b), longest)] }

// rule says what a rule does with packets.
func rule(b []byte) string {
	var list []string
	does := ""
	for _, e := range attributes(b) {
		name, data := text(attribute(e, 1)), attribute(e, 2) // NFTA_EXPR_NAME, NFTA_EXPR_DATA
		if name == "immediate" {
			v := attribute(attribute(data, unix.NFTA_IMMEDIATE_DATA), 2) // NFTA_DATA_VERDICT
			if code := attribute(v, 1); len(code) == 4 {                 // NFTA_VERDICT_CODE, NFTA_VERDICT_CHAIN
				does = verdict(int32(binary.BigEndian.Uint32(code)), text(attribute(v, 2)))
				continue
			}
		}
		list = append(list, name)
	}
	switch {
	case does == "" && list == nil: // of what is removed the kernel may say no more than its number
		return "present"
	case does == "":
		return "by " + strings.Join(list, ", ")
	case list == nil:
		return does + " everything"
	}
	return fmt.Sprintf("%s by %s", does, strings.Join(list, ", "))
}

func verdict(code int32, chain string) string {
	switch code {
	case 0:
		return "drop"
	case 1:
		return "accept"
	case -3, -4: // NFT_JUMP, NFT_GOTO
		return "jump to " + chain
	case -5:
		return "return"
	}
	return fmt.Sprintf("verdict %d", code)
}

func nftFamily(n byte) string {
	names := map[byte]string{1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
	if name, ok := names[n]; ok {
		return name
	}
	return fmt.Sprintf("family %d", n)
}

// Messages of xfrm, and where in them is what they are about (include/uapi/linux/xfrm.h).
const (
	xfrmNewSA, xfrmDelSA, xfrmUpdSA             = 0x10, 0x11, 0x1a
	xfrmNewPolicy, xfrmDelPolicy, xfrmUpdPolicy = 0x13, 0x14, 0x19
	xfrmFlushSA, xfrmFlushPolicy                = 0x1c, 0x1d
	xfrmGetSA, xfrmGetPolicy, xfrmDefault       = 0x12, 0x15, 0x28
	xfrmGroupSA, xfrmGroupPolicy                = 3, 4

	selectorSize  = 56  // struct xfrm_selector
	stateFamily   = 212 // where in it the family is
	stateInfoSize = 224 // struct xfrm_usersa_info
	policySize    = 168 // struct xfrm_userpolicy_info
	xfrmSA        = 6   // XFRMA_SA: what was removed
	xfrmPolicy    = 7   // XFRMA_POLICY
)

// xfrm puts what happened to security associations and policies into words.
func (n *Namespace) xfrm(m message) (what, value string, removed, ok bool) {
	switch m.kind {
	case xfrmNewSA, xfrmUpdSA:
		what, value = n.association(m.data)
		return what, value, false, what != ""
	case xfrmDelSA:
		if own := attribute(from(m.data, 24), xfrmSA); own != nil { // struct xfrm_usersa_id
			what, value = n.association(own)
			return what, value, true, what != ""
		}
		return "a security association", "present", true, true
	case xfrmNewPolicy, xfrmUpdPolicy:
		what, value = n.ipsecPolicy(m.data)
		return what, value, false, what != ""
	case xfrmDelPolicy:
		if own := attribute(from(m.data, 64), xfrmPolicy); own != nil { // struct xfrm_userpolicy_id
			what, value = n.ipsecPolicy(own)
			return what, value, true, what != ""
		}
		return "a policy of IPsec", "present", true, true
	case xfrmFlushSA:
		return "all security associations", "present", true, true
	case xfrmFlushPolicy:
		return "all policies of IPsec", "present", true, true
	case xfrmDefault:
		if len(m.data) >= 3 { // struct xfrm_userpolicy_default
			does := func(i int) string { return map[byte]string{1: "block", 2: "accept"}[m.data[i]] }
			return "default of IPsec", fmt.Sprintf("in %s, forward %s, out %s", does(0), does(1), does(2)), false, true
		}
	}
	return "", "", false, false
}

// association is a struct xfrm_usersa_info: a selector, destination, SPI and protocol, source, limits, …, and the
// algorithms as attributes.
func (n *Namespace) association(b []byte) (what, value string) {
	if len(b) < stateInfoSize {
		return "", ""
	}
	family := byte(binary.NativeEndian.Uint16(b[stateFamily:]))
	to, by := xfrmAddress(b[selectorSize:], family), xfrmAddress(b[selectorSize+24:], family)
	what = fmt.Sprintf("security association from %s to %s, SPI %x", by, to, b[selectorSize+16:selectorSize+20])
	settings := slices.Concat(b[:selectorSize], b[stateFamily-4:stateFamily+5]) // the request, the family, the mode, …
	var parts []string
	for kind, data := range attributes(b[stateInfoSize:]) {
		if name, ok := map[uint16]string{1: "auth", 2: "cipher", 18: "aead", 20: "auth"}[kind]; ok { // XFRMA_ALG_…
			parts = append(parts, name+" "+text(data))
		}
		if !slices.Contains(xfrmMoves(), kind) {
			settings = append(append(settings, byte(kind)), data...)
		}
	}
	return what, strings.Join(append(parts, n.summed("settings", settings)), ", ")
}

// xfrmMoves are the attributes of an association that packets change: lifetimes, and how far its replay protection is
// (enum xfrm_attr_type_t).
func xfrmMoves() []uint16 { return []uint16{9, 10, 15, 23} }

// summed says bytes that are not to be shown, or are too many.
func (n *Namespace) summed(what string, b []byte) string {
	return fmt.Sprintf("%s with the sum %x", what, maphash.Bytes(n.watch.seed, b))
}

// ipsecPolicy is a struct xfrm_userpolicy_info: a selector, limits, …, its priority, direction, action and flags, and
// templates of associations as attributes. The policy of a socket is none.
func (n *Namespace) ipsecPolicy(b []byte) (what, value string) {
	if len(b) < policySize {
		return "", ""
	}
	family := byte(binary.NativeEndian.Uint16(b[40:]))
	direction, ok := map[byte]string{0: "in", 1: "out", 2: "forward"}[b[policySize-8]]
	if !ok {
		return "", ""
	}
	what = fmt.Sprintf("policy of IPsec, %s, from %s/%d to %s/%d", direction, xfrmAddress(b[16:], family), b[43],
		xfrmAddress(b, family), b[42])
	parts := []string{map[byte]string{0: "allow", 1: "block"}[b[policySize-7]]}
	if priority := u32(b[policySize-16:]); priority != 0 {
		parts = append(parts, fmt.Sprintf("priority %d", priority))
	}
	settings := slices.Concat(b[:selectorSize], b[policySize-6:policySize-4])
	plain := len(settings)
	for kind, data := range attributes(b[policySize:]) {
		switch kind {
		case 5, 21, 31: // XFRMA_TMPL, XFRMA_MARK, XFRMA_IF_ID
			settings = append(append(settings, byte(kind)), data...)
		}
	}
	if len(settings) > plain {
		parts = append(parts, n.summed("templates", settings))
	}
	return what, strings.Join(parts, ", ")
}

// listSecured lists associations, policies, and what is done with packets that have none.
func (n *Namespace) listSecured(into state) error {
	if n.ipsec == nil {
		return nil
	}
	read := func(m message, put func(thing, string)) {
		if what, value, _, ok := n.xfrm(m); ok {
			put(thing{"", what}, value)
		}
	}
	for _, kind := range []uint16{xfrmGetSA, xfrmGetPolicy} {
		if err := n.ipsec.fill(into, kind, nil, read); err != nil {
			return err
		}
	}
	err := n.ipsec.ask(xfrmDefault, 0, make([]byte, 3), func(m message) { read(m, into.put) })
	if absent(err) {
		return nil
	}
	return err
}

func xfrmAddress(b []byte, family byte) string {
	if family == unix.AF_INET {
		return ip(b[:4])
	}
	return ip(b[:16])
}

// A log is what has happened to things of which nobody keeps a list, in order.
type log struct {
	order []string
	first map[string]bool   // whether it was removed first
	last  map[string]bool   // whether it was removed last
	value map[string]string // what it was
}

func (l *log) note(what, value string, removed bool) {
	if l.value == nil {
		l.first, l.last, l.value = map[string]bool{}, map[string]bool{}, map[string]string{}
	}
	if _, known := l.value[what]; !known {
		l.order = append(l.order, what)
		l.first[what] = removed
	}
	l.last[what], l.value[what] = removed, value
}

// changes is the log as changes.
func (l *log) changes() (list []Change) {
	for _, what := range l.order {
		value := l.value[what]
		switch was, is := l.first[what], l.last[what]; {
		case !was && is:
			list = append(list, Change{What: what, Between: value, Passed: true})
		case was && !is:
			list = append(list, Change{What: what, Before: value, Passed: true})
		case is:
			list = append(list, Change{What: what, Before: value})
		default:
			list = append(list, Change{What: what, After: value})
		}
	}
	return list
}
