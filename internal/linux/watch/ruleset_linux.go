package watch

import (
	"encoding/binary"
	"fmt"
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
	xfrmGroupSA, xfrmGroupPolicy                = 3, 4

	selectorSize  = 56  // struct xfrm_selector
	stateFamily   = 212 // where in it the family is
	stateInfoSize = 224 // struct xfrm_usersa_info
	policySize    = 168 // struct xfrm_userpolicy_info
	xfrmSA        = 6   // XFRMA_SA: what was removed
	xfrmPolicy    = 7   // XFRMA_POLICY
)

// xfrm puts what happened to security associations and policies into words.
func xfrm(m message) (what, value string, removed, ok bool) {
	switch m.kind {
	case xfrmNewSA, xfrmUpdSA:
		what, value = association(m.data)
		return what, value, false, what != ""
	case xfrmDelSA:
		if own := attribute(from(m.data, 24), xfrmSA); own != nil { // struct xfrm_usersa_id
			what, value = association(own)
			return what, value, true, what != ""
		}
		return "a security association", "present", true, true
	case xfrmNewPolicy, xfrmUpdPolicy:
		what, value = policy(m.data)
		return what, value, false, what != ""
	case xfrmDelPolicy:
		if own := attribute(from(m.data, 64), xfrmPolicy); own != nil { // struct xfrm_userpolicy_id
			what, value = policy(own)
			return what, value, true, what != ""
		}
		return "a policy of IPsec", "present", true, true
	case xfrmFlushSA:
		return "all security associations", "present", true, true
	case xfrmFlushPolicy:
		return "all policies of IPsec", "present", true, true
	}
	return "", "", false, false
}

// association is a struct xfrm_usersa_info: a selector, destination, SPI and protocol, source, limits, …, and the
// algorithms as attributes.
func association(b []byte) (what, value string) {
	if len(b) < stateInfoSize {
		return "", ""
	}
	family := byte(binary.NativeEndian.Uint16(b[stateFamily:]))
	to, by := xfrmAddress(b[selectorSize:], family), xfrmAddress(b[selectorSize+24:], family)
	what = fmt.Sprintf("security association from %s to %s, SPI %x", by, to, b[selectorSize+16:selectorSize+20])
	var parts []string
	for kind, data := range attributes(b[stateInfoSize:]) {
		if name, ok := map[uint16]string{1: "auth", 2: "cipher", 18: "aead", 20: "auth"}[kind]; ok { // XFRMA_ALG_…
			parts = append(parts, name+" "+text(data))
		}
	}
	if parts == nil {
		return what, "present"
	}
	return what, strings.Join(parts, ", ")
}

// policy is a struct xfrm_userpolicy_info: a selector, limits, …, its direction and action.
func policy(b []byte) (what, value string) {
	if len(b) < policySize {
		return "", ""
	}
	family := byte(binary.NativeEndian.Uint16(b[40:]))
	direction := map[byte]string{0: "in", 1: "out", 2: "forward"}[b[policySize-8]]
	what = fmt.Sprintf("policy of IPsec, %s, from %s/%d to %s/%d", direction, xfrmAddress(b[16:], family), b[43],
		xfrmAddress(b, family), b[42])
	return what, map[byte]string{0: "allow", 1: "block"}[b[policySize-7]]
}

func xfrmAddress(b []byte, family byte) string {
	if family == unix.AF_INET {
		return ip(b[:4])
	}
	return ip(b[:16])
}

// Attributes of messages of tc, and the size of their header (include/uapi/linux/rtnetlink.h, struct tcmsg).
const (
	tcHeader  = 20
	tcKind    = 1
	tcOptions = 2
)

// discipline puts what happened to queueing disciplines, classes and filters of tc into words.
func (n names) discipline(m message) (what, value string, removed, ok bool) {
	rest := from(m.data, tcHeader)
	if rest == nil {
		return "", "", false, false
	}
	kind := text(attribute(rest, tcKind))
	link := n.of(int(int32(binary.NativeEndian.Uint32(m.data[4:]))))
	handle, parent := u32(m.data[8:]), u32(m.data[12:])
	at := fmt.Sprintf("%x:%x at %x:%x of %s", handle>>16, handle&0xffff, parent>>16, parent&0xffff, link)
	value = kind
	if options := attribute(rest, tcOptions); options != nil {
		value = fmt.Sprintf("%s, options %x", kind, brief(options))
	}
	switch m.kind {
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC:
		return "queueing discipline " + at, value, m.kind == unix.RTM_DELQDISC, true
	case unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS:
		return "traffic class " + at, value, m.kind == unix.RTM_DELTCLASS, true
	case unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER:
		return "filter of tc " + at, value, m.kind == unix.RTM_DELTFILTER, true
	}
	return "", "", false, false
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
