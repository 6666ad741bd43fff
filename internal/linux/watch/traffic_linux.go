package watch

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Messages of tc (include/uapi/linux/rtnetlink.h, struct tcmsg; pkt_cls.h).
const (
	tcHeader    = 20
	tcKind      = 1  // TCA_KIND and TCA_ACT_KIND
	tcOptions   = 2  // TCA_OPTIONS and TCA_ACT_OPTIONS
	tcChain     = 11 // TCA_CHAIN
	actionsHead = 4  // struct tcamsg
	actionsAll  = 1  // TCA_ACT_TAB
	htbGlobal   = 2  // TCA_HTB_INIT
	htbDirect   = 16 // where in it the number of packets without a class is

	ingressHandle = 0xffff0000 // of the disciplines ingress and clsact
	ingressParent = 0xfffffff2 // of filters of what comes in
	egressParent  = 0xfffffff3
)

// discipline puts what happened to queueing disciplines, classes, filters and actions of tc into words.
func (n *Namespace) discipline(m message) (what, value string, removed, ok bool) {
	if m.kind == unix.RTM_NEWACTION || m.kind == unix.RTM_DELACTION {
		for _, action := range attributes(attribute(from(m.data, actionsHead), actionsAll)) {
			what = "action of tc: " + text(attribute(action, tcKind))
		}
		return what, "present", m.kind == unix.RTM_DELACTION, what != ""
	}
	rest := from(m.data, tcHeader)
	if rest == nil {
		return "", "", false, false
	}
	kind := text(attribute(rest, tcKind))
	link := n.names.of(int(int32(binary.NativeEndian.Uint32(m.data[4:]))))
	handle, parent := u32(m.data[8:]), u32(m.data[12:])
	at := fmt.Sprintf("%x:%x at %x:%x of %s", handle>>16, handle&0xffff, parent>>16, parent&0xffff, link)
	value = kind
	if options := attribute(rest, tcOptions); options != nil {
		options = fixed(kind, options)
		value = fmt.Sprintf("%s, options %x", kind, brief(options))
		if len(options) > longest {
			value += ", " + n.summed("all", options)
		}
	}
	switch m.kind {
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC:
		return "queueing discipline " + at, value, m.kind == unix.RTM_DELQDISC, true
	case unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS:
		return "traffic class " + at, value, m.kind == unix.RTM_DELTCLASS, true
	case unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER:
		at += fmt.Sprintf(", priority %d", u32(m.data[16:])>>16)
		if chain := attribute(rest, tcChain); u32(chain) != 0 {
			at += ", chain " + number(chain)
		}
		return "filter of tc " + at, value, m.kind == unix.RTM_DELTFILTER, true
	}
	return "", "", false, false
}

// fixed are the options of a discipline, class or filter of a kind without what packets change: counters, and when an
// action was used.
func fixed(kind string, options []byte) (list []byte) {
	actions := map[string]uint16{ // TCA_U32_ACT, …
		"u32": 7, "bpf": 1, "flower": 3, "matchall": 2, "basic": 3, "fw": 4, "cgroup": 1, "flow": 9, "route": 6,
	}[kind]
	if actions == 0 && kind != "htb" { // they may be no attributes
		return options
	}
	counters := map[string]uint16{"u32": 9, "basic": 5, "matchall": 4}[kind] // TCA_U32_PCNT, …
	add := func(kind uint16, data []byte) { list = append(binary.NativeEndian.AppendUint16(list, kind), data...) }
	for k, data := range attributes(options) {
		switch {
		case k == counters && counters != 0:
		case k == actions:
			for order, action := range attributes(data) {
				of := attribute(action, tcKind)
				add(order, of)
				for k, data := range attributes(attribute(action, tcOptions)) {
					if k != used(text(of)) {
						add(k, data)
					}
				}
			}
		case kind == "htb" && k == htbGlobal && len(data) >= htbDirect+4:
			data = slices.Clone(data)
			clear(data[htbDirect : htbDirect+4])
			add(k, data)
		default:
			add(k, data)
		}
	}
	return list
}

// used is the attribute of an action that says when it was made and used (TCA_GACT_TM, …).
func used(action string) uint16 {
	switch action {
	case "connmark", "csum", "ct", "ctinfo", "ife", "nat":
		return 2
	case "police":
		return 6
	}
	return 1
}

// listTraffic lists disciplines, their classes and filters, but those disciplines that a link has by itself: they have
// no number.
func (n *Namespace) listTraffic(into state) error {
	type owner struct {
		link, handle uint32
		kind         string
	}
	var owners []owner
	read := func(m message, put func(thing, string)) {
		what, value, _, ok := n.discipline(m)
		if !ok || u32(m.data[8:]) == 0 && m.kind == unix.RTM_NEWQDISC {
			return
		}
		if m.kind != unix.RTM_NEWTFILTER {
			owners = append(owners, owner{u32(m.data[4:]), u32(m.data[8:]), text(attribute(m.data[tcHeader:], tcKind))})
		}
		put(thing{"", what}, value)
	}
	about := func(o owner) []byte {
		b := make([]byte, tcHeader)
		binary.NativeEndian.PutUint32(b[4:], o.link)
		binary.NativeEndian.PutUint32(b[12:], o.handle)
		return b
	}
	if err := n.route.fill(into, unix.RTM_GETQDISC, about(owner{}), read); err != nil {
		return err
	}
	var links []uint32
	for _, o := range owners {
		if o.handle != ingressHandle && !slices.Contains(links, o.link) {
			links = append(links, o.link)
		}
	}
	for _, link := range links {
		err := n.route.fill(into, unix.RTM_GETTCLASS, about(owner{link: link}), func(m message, put func(thing, string)) {
			if kind := text(attribute(from(m.data, tcHeader), tcKind)); !slices.Contains(flows(), kind) {
				read(m, put)
			}
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(owners, func(a, b owner) int {
		return cmp.Or(cmp.Compare(a.link, b.link), cmp.Compare(a.handle, b.handle))
	})
	for _, o := range slices.Compact(owners) { // a listing that began again has said some twice
		parents := []uint32{o.handle}
		switch o.kind {
		case "ingress":
			parents = []uint32{ingressParent}
		case "clsact":
			parents = []uint32{ingressParent, egressParent}
		}
		for _, parent := range parents {
			if err := n.route.fill(into, unix.RTM_GETTFILTER, about(owner{link: o.link, handle: parent}), read); err != nil {
				return err
			}
		}
	}
	return nil
}

// flows are the disciplines that have a class for each flow which waits.
func flows() []string { return []string{"cake", "fq_codel", "sfq"} }
