package watch

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/netns"
)

// groups are what a namespace tells of its links, addresses, routes, rules, neighbours, disciplines of tc, variables
// and the VLANs and multicast groups of its bridges (RTNLGRP_…, include/uapi/linux/rtnetlink.h).
func groups() []int {
	return []int{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
		unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF, unix.RTNLGRP_NEXTHOP,
		unix.RTNLGRP_BRVLAN, unix.RTNLGRP_MDB,
	}
}

// openFiles is how many files of variables a [Watch] keeps open.
const openFiles = 2048

// A Watch is what the namespaces of a host share: its zero value is ready. It is for one goroutine at a time.
type Watch struct {
	buf   buffer
	files int
	seed  maphash.Seed
}

// A section is what there is of one kind, whose changes a monitor reports.
type section struct {
	name  string
	kinds []uint16 // of requests for listings
	body  [][]byte
	read  reader
	list  func(*Namespace, state) error // instead of kinds, body and read
	may   tolerance
	base  state
	trail trail
	dirty bool
	// silent says that some changes have no event: those that go with a link, or that a kernel keeps quiet about. Listed
	// is the number of the audit that has listed it last.
	silent bool
	listed int
}

// A reader calls f for each thing of a message. What does not count has no value.
type reader func(n names, m []byte, f func(thing, string))

// one makes a reader of messages that have a thing each.
func one(read func(n names, m []byte) (thing, string)) reader {
	return func(n names, m []byte, f func(thing, string)) { f(read(n, m)) }
}

// is what a thing is now, as far as the monitor has told.
func (s *section) is(t thing) string {
	if l := s.trail[t]; len(l) > 0 {
		return l[len(l)-1]
	}
	return s.base[t]
}

// note keeps what a thing has become.
func (s *section) note(t thing, value string) {
	if t == (thing{}) || s.is(t) == value {
		return
	}
	if s.trail == nil {
		s.trail = trail{}
	}
	s.trail[t] = append(s.trail[t], value)
	s.dirty = true
}

// added and removed note what a message of the monitor reports.
func (s *section) added(n names, m []byte) { s.read(n, m, s.note) }

func (s *section) removed(n names, m []byte) {
	s.read(n, m, func(t thing, _ string) { s.note(t, "") })
}

// A Namespace is a network namespace that is watched.
type Namespace struct {
	fd    int // of the namespace, which is the caller's
	watch *Watch

	monitor, rules, security *conn // what happens; rules and security may be nil: the kernel has none
	route, filter, sockets   *conn // for requests; filter, sockets and ipsec may be nil
	ipsec                    *conn

	names     names
	links     section
	addresses section
	routes    section
	policy    section // rules for routes
	near      section // neighbours
	vlans     section // of bridges
	multicast section // groups that bridges know
	hops      section // next hops
	traffic   section // of tc; its events are in the log
	secured   section // by IPsec; its events are in the log
	sum       uint64  // of the links
	log       log
	varied    trail // variables that were told, and what they were before
	before    state

	variables  []variable
	numbers    state // what has no monitor
	noSets     bool
	next       int // the link whose programs are looked at next
	generation uint32
	listening  [][]Socket // by kind
	turn       int        // the number of audits that have looked at sockets
	// audits is the number of audits so far. Counted are the last ones that have read numbers, as many as it takes to look
	// at the programs of all links, and listened is the last one that has looked at a kind of sockets.
	audits   int
	counted  []int
	listened []int
	legacy   []*os.File
	entries  *os.File // the counters of the table of connections; nil: there is none
	missing  []string
}

// Open begins to watch the namespace of fd, which stays the caller's and must stay open. Of one that forwards packets
// for others more variables matter.
func (w *Watch) Open(fd int, forwards bool) (*Namespace, error) {
	if w.seed == (maphash.Seed{}) {
		w.seed = maphash.MakeSeed()
	}
	n := &Namespace{fd: fd, watch: w, names: names{}, legacy: make([]*os.File, len(legacy()))}
	n.links = section{name: "links", list: (*Namespace).listLinks, may: nothing}
	n.addresses = section{
		name: "addresses", kinds: []uint16{unix.RTM_GETADDR}, body: [][]byte{make([]byte, unix.SizeofIfAddrmsg)},
		read: one(names.address), may: nothing,
	}
	n.routes = section{
		name: "routes", kinds: []uint16{unix.RTM_GETROUTE}, body: [][]byte{make([]byte, unix.SizeofRtMsg)},
		read: one(names.route), may: nothing,
	}
	n.policy = section{
		name: "rules for routes", kinds: []uint16{unix.RTM_GETRULE}, body: [][]byte{make([]byte, unix.SizeofRtMsg)},
		read: one(names.rule), may: nothing,
	}
	forwarding := make([]byte, unix.SizeofIfInfomsg)
	forwarding[0] = unix.AF_BRIDGE
	n.near = section{
		name: "neighbours", kinds: []uint16{unix.RTM_GETNEIGH, unix.RTM_GETNEIGH},
		body: [][]byte{make([]byte, unix.SizeofNdMsg), forwarding}, read: one(names.neighbour), may: learned,
	}
	bridges := make([]byte, bridgeHeader)
	bridges[0] = unix.AF_BRIDGE
	n.vlans = section{
		name: "VLANs of bridges", kinds: []uint16{unix.RTM_GETVLAN}, body: [][]byte{bridges}, read: names.vlan, may: nothing,
	}
	n.multicast = section{
		name: "groups of bridges", kinds: []uint16{unix.RTM_GETMDB}, body: [][]byte{bridges}, read: names.group, may: nothing,
	}
	n.hops = section{
		name: "next hops", kinds: []uint16{unix.RTM_GETNEXTHOP}, body: [][]byte{make([]byte, hopHeader)},
		read: one(names.hop), may: nothing, silent: true,
	}
	n.traffic = section{name: "what tc has set", list: (*Namespace).listTraffic, may: nothing, silent: true}
	n.secured = section{name: "IPsec", list: (*Namespace).listSecured, may: nothing, silent: true}
	err := netns.Do(fd, func() error { return n.open(forwards) })
	if err == nil {
		err = n.begin()
	}
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("watch a namespace: %w", err)
	}
	return n, nil
}

// open opens the sockets, in the namespace.
func (n *Namespace) open(forwards bool) (err error) {
	buf := &n.watch.buf
	if n.monitor, err = listen(buf, unix.NETLINK_ROUTE, groups()...); err != nil {
		return err
	}
	if n.route, err = dial(buf, unix.NETLINK_ROUTE); err != nil {
		return err
	}
	for _, one := range []struct {
		into *(*conn)
		what string
		open func() (*conn, error)
	}{
		{&n.rules, "changes of nftables", func() (*conn, error) {
			return listen(buf, unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
		}},
		{&n.filter, "netfilter", func() (*conn, error) { return dial(buf, unix.NETLINK_NETFILTER) }},
		{&n.security, "IPsec", func() (*conn, error) {
			return listen(buf, unix.NETLINK_XFRM, xfrmGroupSA, xfrmGroupPolicy)
		}},
		{&n.ipsec, "", func() (*conn, error) { return dial(buf, unix.NETLINK_XFRM) }}, // as above
		{&n.sockets, "sockets", func() (*conn, error) { return dial(buf, unix.NETLINK_SOCK_DIAG) }},
	} {
		c, err := one.open()
		if err != nil && !absent(err) {
			return err
		}
		if err != nil && one.what != "" {
			n.missing = append(n.missing, one.what)
		}
		*one.into = c
	}
	if n.entries, err = openEntered(); err != nil {
		return err
	}
	n.variables, err = openVariables(forwards, func() bool {
		n.watch.files++
		return n.watch.files <= openFiles
	})
	return err
}

// absent says that the kernel does not have something, or does not let this process.
func absent(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// begin notes everything as it is.
func (n *Namespace) begin() error {
	if n.filter != nil {
		g, err := n.filter.generation()
		if err != nil && !absent(err) {
			return err
		}
		n.generation = g
	}
	sum, err := n.digest()
	if err != nil {
		return err
	}
	n.sum = sum
	for _, s := range n.sections() {
		if s.base, err = n.list(s); err != nil {
			return err
		}
	}
	if n.numbers, err = n.count(); err != nil {
		return err
	}
	return n.Listen()
}

// sections are those with a monitor. The links come first: others have their names.
func (n *Namespace) sections() []*section {
	return []*section{
		&n.links, &n.addresses, &n.routes, &n.policy, &n.near, &n.vlans, &n.multicast, &n.hops, &n.traffic, &n.secured,
	}
}

// list reads what there is of a section.
func (n *Namespace) list(s *section) (state, error) {
	into := state{}
	if s.list != nil {
		if err := s.list(n, into); err != nil {
			return nil, fmt.Errorf("list %s: %w", s.name, err)
		}
		return into, nil
	}
	for i, kind := range s.kinds {
		err := n.route.fill(into, kind, s.body[i], func(m message, put func(thing, string)) { s.read(n.names, m.data, put) })
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", s.name, err)
		}
	}
	return into, nil
}

// fill adds a listing, if the kernel has it, to a state. It begins again if something changed meanwhile.
func (c *conn) fill(into state, kind uint16, body []byte, read func(m message, put func(thing, string))) error {
	kept := maps.Clone(into)
	begin := func() {
		clear(into)
		maps.Copy(into, kept)
	}
	err := c.dump(kind, body, begin, func(m message) {
		read(m, func(t thing, value string) {
			if value != "" {
				into.put(t, value)
			}
		})
	})
	if err != nil && !absent(err) {
		return err
	}
	return nil
}

func (n *Namespace) listLinks(into state) error {
	var all [][]byte
	err := n.route.dump(unix.RTM_GETLINK, linkRequest(), func() { all = nil }, func(m message) {
		all = append(all, slices.Clone(m.data))
	})
	if err != nil {
		return err
	}
	for _, m := range all { // a master may come after its port
		n.names.note(m)
	}
	for _, m := range all {
		n.names.link(into, m)
	}
	return nil
}

// digest sums up the links.
func (n *Namespace) digest() (uint64, error) {
	var h maphash.Hash
	h.SetSeed(n.watch.seed)
	err := n.route.dump(unix.RTM_GETLINK, linkRequest(), h.Reset, func(m message) { digest(&h, m.data) })
	if err != nil {
		return 0, fmt.Errorf("list links: %w", err)
	}
	return h.Sum64(), nil
}

// Missing lists what the kernel does not let anybody watch here.
func (n *Namespace) Missing() []string { return n.missing }

// Close ends the watch.
func (n *Namespace) Close() {
	for _, c := range []*conn{n.monitor, n.rules, n.security, n.route, n.filter, n.sockets, n.ipsec} {
		c.close()
	}
	for _, f := range slices.Concat(n.legacy, []*os.File{n.entries}) {
		if f != nil {
			_ = f.Close()
		}
	}
	for _, v := range n.variables {
		if v.file != nil {
			_ = v.file.Close()
			n.watch.files--
		}
	}
}
