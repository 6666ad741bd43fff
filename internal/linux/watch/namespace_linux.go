package watch

import (
	"cmp"
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

// An Audit is what was found in a namespace since the last one.
type Audit struct {
	Changes []Change
	// New are sockets that hear whoever sends to them, which were not there. It is for the caller to know whose they are.
	New []Socket
	// Lost says that more happened than the monitors could keep: what came and went is not all known.
	Lost bool
}

// How much a [Namespace.Audit] compares. Each one includes those above it.
const (
	// Reported is what monitors report, and links.
	Reported = iota
	// Usual adds what has no monitor: variables, programs, older tables, sets, and sockets of one kind, in turn.
	Usual
	// All adds sockets of all kinds, next hops, and what tc and IPsec have set without an event.
	All
)

// Audit reports what has changed since the last audit, or since [Watch.Open]. It reports each change once.
func (n *Namespace) Audit(much int) (Audit, error) {
	var a Audit
	var err error
	n.audits++
	if a.Lost, err = n.happened(); err != nil {
		return a, err
	}
	sum, err := n.digest()
	if err != nil {
		return a, err
	}
	if sum != n.sum {
		n.links.dirty, n.sum = true, sum
	}
	// what goes with a link has no event
	silent := much == All || n.links.dirty
	for _, s := range n.sections() {
		if !s.dirty && !a.Lost && !(silent && s.silent) {
			continue
		}
		list, err := n.compare(s)
		if err != nil {
			return a, err
		}
		a.Changes = append(a.Changes, list...)
	}
	list, err := n.compareLogged()
	if err != nil {
		return a, err
	}
	list = slices.DeleteFunc(list, func(c Change) bool { // a listing says what it was, too
		return slices.ContainsFunc(a.Changes, func(known Change) bool { return known.What == c.What })
	})
	a.Changes = append(a.Changes, list...)
	if much == Reported && n.varied == nil {
		return a, nil
	}
	if list, err = n.compareNumbers(); err != nil {
		return a, err
	}
	back := n.looked()
	for i := range list {
		list[i].Back = back
	}
	a.Changes = append(a.Changes, list...)
	a.New, err = n.heard(much == All)
	return a, err
}

// happened reads the monitors.
func (n *Namespace) happened() (lost bool, err error) {
	for _, one := range []struct {
		c *conn
		f func(message)
	}{{n.monitor, n.event}, {n.rules, n.logged(nftables)}, {n.security, n.securityEvent}} {
		if one.c == nil {
			continue
		}
		err := one.c.pending(one.f)
		if err != nil && !errors.Is(err, errLost) {
			return false, err
		}
		lost = lost || err != nil
	}
	return lost, nil
}

func (n *Namespace) logged(read func(message) (what, value string, removed, ok bool)) func(message) {
	return func(m message) {
		if what, value, removed, ok := read(m); ok {
			n.log.note(what, value, removed)
		}
	}
}

// event notes what a message of the monitor reports.
func (n *Namespace) event(m message) {
	switch m.kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		n.linkEvent(m)
	case unix.RTM_NEWADDR:
		n.addresses.added(n.names, m.data)
	case unix.RTM_DELADDR:
		n.addresses.removed(n.names, m.data)
	case unix.RTM_NEWROUTE:
		t, value := n.names.route(m.data)
		if n.names.follows(m.data, n.addresses.base) && n.routes.is(t) == "" {
			n.routes.base.put(t, value)
			return
		}
		n.routes.note(t, value)
	case unix.RTM_DELROUTE:
		n.routes.removed(n.names, m.data)
	case unix.RTM_NEWRULE:
		n.policy.added(n.names, m.data)
	case unix.RTM_DELRULE:
		n.policy.removed(n.names, m.data)
	case unix.RTM_NEWNEIGH:
		t, value := n.names.neighbour(m.data)
		n.neighbourEvent(t, value)
	case unix.RTM_DELNEIGH:
		t, _ := n.names.neighbour(m.data)
		n.neighbourEvent(t, "")
	case unix.RTM_NEWNEXTHOP:
		n.hops.added(n.names, m.data)
	case unix.RTM_DELNEXTHOP:
		n.hops.removed(n.names, m.data)
	case unix.RTM_NEWVLAN:
		n.vlans.added(n.names, m.data)
	case unix.RTM_DELVLAN:
		n.vlans.removed(n.names, m.data)
	case unix.RTM_NEWMDB:
		n.multicast.added(n.names, m.data)
	case unix.RTM_DELMDB:
		n.multicast.removed(n.names, m.data)
	case unix.RTM_NEWNETCONF:
		n.variableEvent(m.data)
	default:
		n.traffic.dirty = true
		n.logged(n.discipline)(m)
	}
}

func (n *Namespace) securityEvent(m message) {
	n.secured.dirty = true
	n.logged(n.xfrm)(m)
}

// neighbourEvent notes a neighbour, and learns one that was not known.
func (n *Namespace) neighbourEvent(t thing, value string) {
	if t == (thing{}) {
		return
	}
	was := n.near.is(t)
	switch {
	case was == value:
	case !learned(was, value):
		n.near.note(t, value)
	case value != "":
		n.near.base[t] = value
	}
}

// linkEvent notes what a link has become.
func (n *Namespace) linkEvent(m message) {
	if len(m.data) == 0 || m.data[0] == unix.AF_BRIDGE {
		n.links.dirty = true // the same link tells it, too
		return
	}
	is := state{}
	n.names.link(is, m.data)
	for t, value := range is {
		if m.kind == unix.RTM_DELLINK {
			value = ""
		}
		if value != "" || t.of == t.what {
			n.links.note(t, value)
		}
		if t.of != t.what || m.kind == unix.RTM_DELLINK {
			continue
		}
		for other := range n.links.base { // what it does not have any more
			if other.of == t.of && is[other] == "" {
				n.links.note(other, "")
			}
		}
	}
}

// Attributes of RTM_NEWNETCONF (NETCONFA_…, include/uapi/linux/netconf.h).
const (
	netconfIndex      = 1
	netconfForwarding = 2
	netconfRPFilter   = 3
	netconfMulticast  = 4
	netconfProxy      = 5
)

// variableEvent notes what a variable of a link, of all or of new ones has become.
func (n *Namespace) variableEvent(m []byte) {
	rest := from(m, 4) // struct netconfmsg, padded
	if rest == nil {
		return
	}
	six := 0
	if m[0] == unix.AF_INET6 {
		six = 1
	}
	v := families()[six]
	index := int(int32(u32(attribute(rest, netconfIndex))))
	for kind, data := range attributes(rest) {
		// the number of the variable of a link, of IPv4 and IPv6
		at, ok := map[uint16][2]int{
			netconfForwarding: {1, 0}, netconfRPFilter: {8, -1}, netconfMulticast: {2, 25}, netconfProxy: {3, 22},
		}[kind]
		if !ok || at[six] < 0 {
			continue
		}
		if index < 0 { // NETCONFA_IFINDEX_ALL, NETCONFA_IFINDEX_DEFAULT
			of := map[int]string{-1: "all", -2: "default"}[index]
			n.told(v.prefix+of+"."+v.names[at[six]], number(data))
			continue
		}
		t := v.thing(n.names.of(index))
		if is := n.links.is(t); is != "" {
			n.links.note(t, set(is, at[six]-v.first, u32(data)))
		}
	}
}

// told notes that a variable of the namespace had a value since the last audit.
func (n *Namespace) told(key, value string) {
	for i := range n.variables {
		v := &n.variables[i]
		if v.key != key || v.value() == value {
			continue
		}
		if n.varied == nil {
			n.varied, n.before = trail{}, state{}
		}
		n.varied[v.thing()], n.before[v.thing()] = append(n.varied[v.thing()], value), v.value()
	}
}

// compare lists a section and says what has changed.
func (n *Namespace) compare(s *section) ([]Change, error) {
	is, err := n.list(s)
	if err != nil {
		return nil, err
	}
	list := diff(s.base, is, s.may)
	list = append(list, s.trail.passed(s.base, list, s.may)...)
	if s == &n.near { // what was forgotten is to be the same when it is learned again
		for t, was := range s.base {
			if is[t] == "" && s.may(was, "") {
				is[t] = was
			}
		}
	}
	list = expand(list)
	for i, c := range list {
		list[i].Back = 1
		if _, told := n.log.value[c.What]; s.silent && !told && !s.trail.has(c.What) {
			list[i].Back = n.audits - s.listed
		}
	}
	s.base, s.trail, s.dirty, s.listed = is, nil, false, n.audits
	return list, nil
}

// compareLogged says what has changed of what has a monitor that keeps no list.
func (n *Namespace) compareLogged() ([]Change, error) {
	list := n.log.changes()
	for i := range list {
		list[i].Back = 1
	}
	n.log = log{}
	if n.filter == nil || n.generation == 0 {
		return list, nil
	}
	g, err := n.filter.generation()
	if err != nil {
		return nil, err
	}
	if g != n.generation && len(list) == 0 { // whoever says what it was has missed it
		list = append(list, Change{
			What: "generation of nftables", Before: fmt.Sprint(n.generation), After: fmt.Sprint(g), Back: 1,
		})
	}
	n.generation = g
	return list, nil
}

// looked notes that the numbers are known now, and returns how many audits ago they were.
func (n *Namespace) looked() (back int) {
	back = n.audits
	if len(n.counted) > 0 {
		back -= n.counted[0]
	}
	n.counted = append(n.counted, n.audits)
	rounds := (len(n.names) + programsAtOnce - 1) / programsAtOnce
	n.counted = n.counted[max(0, len(n.counted)-max(1, rounds)):]
	return back
}

// compareNumbers says what has changed of what has no monitor.
func (n *Namespace) compareNumbers() ([]Change, error) {
	is, err := n.count()
	if err != nil {
		return nil, err
	}
	list := diff(n.numbers, is, nothing)
	n.numbers = is
	some, err := n.compareVariables()
	return append(list, some...), err
}

// compareVariables says which variables have changed.
func (n *Namespace) compareVariables() (list []Change, err error) {
	read := func(files bool) error {
		for i := range n.variables {
			v := &n.variables[i]
			if (v.file != nil) != files {
				continue
			}
			was := *v
			changed, err := v.read()
			if err != nil {
				return err
			}
			if changed {
				list = append(list, Change{What: v.key, Before: was.value(), After: v.value()})
			}
		}
		return nil
	}
	err = read(true)
	if slices.ContainsFunc(n.variables, func(v variable) bool { return v.file == nil }) {
		err = errors.Join(err, netns.Do(n.fd, func() error { return read(false) }))
	}
	list = append(list, n.varied.passed(n.before, list, nothing)...)
	n.varied, n.before = nil, nil
	return list, err
}

// Listen takes the sockets that there are now for known.
func (n *Namespace) Listen() error {
	n.listening, n.listened = nil, nil
	for _, k := range hearings() {
		if n.sockets == nil {
			return nil
		}
		list, err := n.hear(k)
		if err != nil && absent(err) {
			n.sockets.close()
			n.sockets = nil
			n.missing = append(n.missing, "sockets")
			return nil
		}
		if err != nil {
			return err
		}
		n.listening, n.listened = append(n.listening, list), append(n.listened, n.audits)
	}
	return nil
}

// heard lists the sockets of a kind that are new: of each kind in turn, or of all.
func (n *Namespace) heard(all bool) (list []Socket, err error) {
	if n.sockets == nil {
		return nil, nil
	}
	n.turn++
	for i, k := range hearings() {
		if !all && n.turn%len(hearings()) != i {
			continue
		}
		is, err := n.hear(k)
		if err != nil {
			return nil, err
		}
		for _, s := range is {
			if _, known := slices.BinarySearchFunc(n.listening[i], s, func(a, b Socket) int {
				return cmp.Compare(a.Name, b.Name)
			}); !known {
				s.Back = n.audits - n.listened[i]
				list = append(list, s)
			}
		}
		n.listening[i], n.listened[i] = is, n.audits
	}
	return list, nil
}
