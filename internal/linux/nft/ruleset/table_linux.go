package ruleset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/nft"
)

// Add makes a table. It decides nothing before all of it stands: packets come to it by a transaction of its own where it is too large for one. A table that is there already
// is [nft.ErrExists]; what the kernel does not have is a [linux.UnsupportedError].
func Add(t Table) error {
	what := fmt.Sprintf("make table %q of nftables (%s)", t.Name, t.Family)
	if _, ok := families()[t.Family]; !ok {
		return fmt.Errorf("%s: unknown family (known: inet, bridge, netdev)", what)
	}
	b := NewBatch(t.Family, t.Name)
	b.addTable()
	for _, c := range t.Chains {
		if c.Hook == nil {
			b.AddChain(c.Name)
		}
	}
	for i, s := range t.Sets {
		b.addSet(s, uint32(i+1))
	}
	for _, s := range t.Sets {
		b.AddElements(s.Name, s.Elements)
	}
	hooked := 0
	for _, last := range []bool{false, true} {
		hooked = len(b.buf)
		for _, c := range t.Chains {
			if (c.Hook != nil) != last {
				continue
			}
			if c.Hook != nil {
				b.chain(c.Name, c.Hook)
			}
			for r := range c.Rules {
				b.AddRule(c.Name, r)
			}
		}
	}
	added, err := b.send(hooked)
	if err != nil && added {
		err = errors.Join(err, Delete(t.Family, t.Name))
	}
	if errors.Is(err, unix.EEXIST) {
		err = nft.ErrExists
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Commit does what the batch says, all of it or nothing.
func (b *Batch) Commit() error {
	if len(b.buf) == 0 {
		return nil
	}
	if _, err := b.send(len(b.buf)); err != nil {
		return fmt.Errorf("change table %q of nftables: %w", b.table, err)
	}
	return nil
}

// Delete removes a table and all that is in it. One that is gone already is [nft.ErrNotFound].
func Delete(family, name string) error {
	b := NewBatch(family, name)
	b.deleteTable()
	_, err := b.send(len(b.buf))
	if errors.Is(err, unix.ENOENT) {
		err = nft.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove table %q of nftables (%s): %w", name, family, err)
	}
	return nil
}

// Limits of what is sent at once. The kernel takes a transaction as one message, copies it and checks it with the table locked.
const (
	maxTransaction = 256 << 20
	slack          = 4 << 10 // what the kernel counts besides, and the messages around
)

// send sends the messages in one transaction, or where the socket has not so much room in several, of which the last begins not before hooked. It says whether some of it was
// done though not all.
func (b *Batch) send(hooked int) (some bool, err error) {
	s, err := dial()
	if err != nil {
		return false, err
	}
	defer s.close()
	room, err := s.room(min(len(b.buf), maxTransaction) + slack)
	if err != nil {
		return false, err
	}
	if len(b.buf) <= room {
		return false, s.transact(b, 0, len(b.buf))
	}
	for from := 0; from < len(b.buf); {
		to := from
		for to < len(b.buf) && (to != hooked || from == hooked) {
			length := int(binary.NativeEndian.Uint32(b.buf[to:]))
			if to+length-from > room {
				break
			}
			to += length
		}
		if to == from {
			return some, fmt.Errorf("a message of %d bytes, and the socket takes %d", binary.NativeEndian.Uint32(b.buf[from:]), room)
		}
		if err := s.transact(b, from, to); err != nil {
			return some, err
		}
		some, from = true, to
	}
	return some, nil
}

// socket is one to nfnetlink.
type socket struct {
	fd  int
	buf []byte
}

// patience is how long an answer may take: the kernel gives it before the system call that asked ends.
const patience = 30 // s

func dial() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, unsupported("nfnetlink (CONFIG_NETFILTER_NETLINK)", err)
	}
	s := &socket{fd: fd, buf: make([]byte, 1<<18)}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: patience})); err != nil {
		s.close()
		return nil, fmt.Errorf("open a socket of nftables: %w", err)
	}
	return s, nil
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// room makes place for so many bytes, and returns how many there is place for: a process without privileges in the machine's own user namespace gets no more than
// net.core.wmem_max (net/core/sock.c, SO_SNDBUFFORCE). The kernel gives twice as much as is asked for, for what it counts besides, and netlink does not.
func (s *socket) room(bytes int) (int, error) {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bytes) != nil {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bytes); err != nil {
			return 0, fmt.Errorf("make room for a transaction: %w", err)
		}
	}
	granted, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	return granted - slack, err
}

// transact sends the messages from one place to another as a transaction. Only the last is to be answered; one that fails is anyway, and undoes those before it
// (nfnetlink_rcv_batch, net/netfilter/nfnetlink.c).
func (s *socket) transact(b *Batch, from, to int) error {
	last := from
	for at, n := from, 1; at < to; n++ {
		binary.NativeEndian.PutUint32(b.buf[at+8:], uint32(n))
		last, at = at, at+int(binary.NativeEndian.Uint32(b.buf[at:]))
	}
	flags := binary.NativeEndian.Uint16(b.buf[last+6:]) | flagAcknowledge
	binary.NativeEndian.PutUint16(b.buf[last+6:], flags)
	number := binary.NativeEndian.Uint32(b.buf[last+8:])
	begin := message(nil, kindBegin, flagRequest, 0, subsystem)
	end := message(nil, kindEnd, flagRequest, 0, subsystem)
	if _, err := unix.SendmsgBuffers(s.fd, [][]byte{begin, b.buf[from:to], end}, nil, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}, 0); err != nil {
		return refused("transaction", fmt.Errorf("send a transaction of %d bytes: %w", to-from, err))
	}
	for {
		n, err := s.receive()
		if err != nil {
			return err
		}
		for m := s.buf[:n]; len(m) >= messageHeader; {
			length := int(binary.NativeEndian.Uint32(m))
			if length < messageHeader || length > len(m) {
				return fmt.Errorf("an answer of %d bytes is cut short", len(m))
			}
			if binary.NativeEndian.Uint16(m[4:]) == kindError && length >= messageHeader+4 {
				code, of := -int32(binary.NativeEndian.Uint32(m[messageHeader:])), binary.NativeEndian.Uint32(m[8:])
				if code != 0 {
					return refused(b.what(place(b.buf, from, of)), unix.Errno(code))
				}
				if of == number {
					return nil
				}
			}
			m = m[min(len(m), (length+3)&^3):]
		}
	}
}

// place is where the message of a number begins; behind all of them where none has it.
func place(buf []byte, from int, number uint32) int {
	for at := from; at < len(buf); at += int(binary.NativeEndian.Uint32(buf[at:])) {
		if binary.NativeEndian.Uint32(buf[at+8:]) == number {
			return at
		}
	}
	return len(buf)
}

// refused says what the kernel does not have, where its error says that.
func refused(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return &linux.UnsupportedError{What: "change nftables", Missing: "CAP_NET_ADMIN", Hint: "run it as root", Err: err}
	case what == "table" && errors.Is(err, unix.ENOENT): // of one that is to be removed
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPROTONOSUPPORT):
		return unsupported("what this "+what+" of nftables needs", err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func unsupported(missing string, err error) error {
	return &linux.UnsupportedError{What: "use nftables", Missing: missing, Hint: "load the kernel's modules for it, or use a kernel that has it", Err: err}
}

func (s *socket) receive() (int, error) {
	for {
		n, _, err := unix.Recvfrom(s.fd, s.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read an answer of nftables: %w", err)
		}
		return n, nil
	}
}

// ask sends a question about a table and calls f with the attributes of every answer, which it must not keep.
func (s *socket) ask(kind, flags uint16, family byte, attributes []byte, f func(attributes []byte)) error {
	q := append(message(nil, subsystem<<8|kind, flagRequest|flags, family, 0), attributes...)
	binary.NativeEndian.PutUint32(q, uint32(len(q)))
	if err := unix.Sendto(s.fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	interrupted := false
	for {
		n, err := s.receive()
		if err != nil {
			return err
		}
		for m := s.buf[:n]; len(m) >= messageHeader; {
			length := int(binary.NativeEndian.Uint32(m))
			if length < messageHeader || length > len(m) {
				return fmt.Errorf("an answer of %d bytes is cut short", len(m))
			}
			interrupted = interrupted || binary.NativeEndian.Uint16(m[6:])&flagInterrupted != 0
			switch binary.NativeEndian.Uint16(m[4:]) {
			case kindDone:
				if interrupted {
					return errInterrupted
				}
				return nil
			case kindError:
				if code := -int32(binary.NativeEndian.Uint32(m[messageHeader:])); code != 0 {
					return unix.Errno(code)
				}
				return nil
			default:
				f(m[messageHeader+familyHeader : length])
			}
			m = m[min(len(m), (length+3)&^3):]
		}
	}
}

// rules calls f with the chain and the attributes of every rule of a table, or of one of its chains.
func (s *socket) rules(family byte, table, chain string, f func(chain, attributes []byte)) error {
	q := text(nil, attributeName, table)
	if chain != "" {
		q = text(q, ruleChain, chain)
	}
	return s.ask(getRule, flagDump, family, q, func(a []byte) {
		// A kernel that does not filter (before 4.12) gives all there are.
		if word(find(a, attributeName)) == table {
			f(find(a, ruleChain), a)
		}
	})
}

// Read returns the rules of a chain, in order.
func Read(family, table, chain string) ([]Found, error) {
	s, err := dial()
	if err != nil {
		return nil, err
	}
	defer s.close()
	var list []Found
	for tries := 0; ; tries++ {
		list = list[:0]
		err = s.rules(families()[family], table, chain, func(_, a []byte) {
			expressions := find(a, ruleExpressions)
			f := Found{Hash: Rule(expressions).hash(), Packets: packets(expressions)}
			if h := find(a, ruleHandle); len(h) == 8 {
				f.Handle = binary.BigEndian.Uint64(h)
			}
			list = append(list, f)
		})
		if !errors.Is(err, errInterrupted) || tries == 3 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read chain %q of table %q of nftables (%s): %w", chain, table, family, err)
	}
	return list, nil
}

// Compare reads a table back and returns what differs. What is in it that should not be is a difference, too. Of a set and of the rules of a chain up to ten differences are
// named.
func Compare(t Table) ([]nft.Difference, error) {
	s, err := dial()
	if err != nil {
		return nil, err
	}
	defer s.close()
	c := &comparison{socket: s, family: families()[t.Family], table: t}
	for tries := 0; ; tries++ {
		c.list = nil
		err = c.all()
		if !errors.Is(err, errInterrupted) || tries == 3 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read table %q of nftables (%s): %w", t.Name, t.Family, err)
	}
	return c.list, nil
}

type comparison struct {
	*socket
	family byte
	table  Table
	list   []nft.Difference
}

// What a difference says about things that are there or not.
const (
	present = "present"
	absent  = "absent"
	most    = 10 // differences of one chain or set that are named
)

func (c *comparison) add(what, want, got string) {
	if want != got {
		c.list = append(c.list, nft.Difference{What: what, Want: want, Got: got})
	}
}

func (c *comparison) all() error {
	var flags []byte
	err := c.ask(getTable, flagAcknowledge, c.family, text(nil, attributeName, c.table.Name), func(a []byte) {
		flags = slices.Clone(find(a, tableFlags))
	})
	if errors.Is(err, unix.ENOENT) {
		c.add("table "+c.table.Name, present, absent)
		return nil
	}
	if err != nil {
		return err
	}
	if len(flags) == 4 && binary.BigEndian.Uint32(flags)&flagDormant != 0 {
		c.add("table "+c.table.Name, "active", "dormant")
	}
	if err := c.chains(); err != nil {
		return err
	}
	if err := c.sets(); err != nil {
		return err
	}
	return c.compareRules()
}

// chains compares what chains there are and what leads packets to them.
func (c *comparison) chains() error {
	there := map[string]string{}
	err := c.ask(getChain, flagDump, c.family, nil, func(a []byte) {
		if word(find(a, attributeName)) != c.table.Name {
			return
		}
		hook, traits := find(a, chainHook), "no hook"
		if hook != nil {
			n, p := find(hook, hookNumber), find(hook, hookPriority)
			policy := find(a, chainPolicy)
			if len(n) == 4 && len(p) == 4 && len(policy) == 4 {
				traits = hooked(binary.BigEndian.Uint32(n), int32(binary.BigEndian.Uint32(p)), word(find(hook, hookLink)), word(find(a, chainType)), binary.BigEndian.Uint32(policy))
			}
		}
		there[word(find(a, attributeThird))] = traits
	})
	if err != nil {
		return err
	}
	for _, w := range c.table.Chains {
		want := "no hook"
		if w.Hook != nil {
			want = hooked(w.Hook.number(c.family), w.Hook.Priority, w.Hook.Link, "filter", policyDrop)
		}
		got, ok := there[w.Name]
		if !ok {
			got = absent
		}
		c.add("chain "+w.Name, want, got)
		delete(there, w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		c.add("chain "+name, absent, present)
	}
	return nil
}

func hooked(number uint32, priority int32, link, kind string, policy uint32) string {
	word := "accept"
	if policy == policyDrop {
		word = "drop"
	}
	if link != "" {
		link = " device " + link
	}
	return fmt.Sprintf("type %s hook %d%s priority %d policy %s", kind, number, link, priority, word)
}

// compareRules compares the rules of every chain by their hashes, in order.
func (c *comparison) compareRules() error {
	there := map[string][]uint64{}
	var name string // of the chain that the last rule was of
	var list []uint64
	if err := c.rules(c.family, c.table.Name, "", func(chain, a []byte) {
		if chain := word(chain); chain != name {
			there[name] = list
			name, list = chain, there[chain]
		}
		list = append(list, Rule(find(a, ruleExpressions)).hash())
	}); err != nil {
		return err
	}
	there[name] = list
	for _, w := range c.table.Chains {
		got, n, more := there[w.Name], 0, 0
		for r := range w.Rules {
			if h := r.hash(); n < len(got) && got[n] != h || n >= len(got) {
				if more++; more <= most {
					// One that is gone moves all behind it: the rest is as it should be, one place before.
					if n+1 > len(got) {
						c.add(fmt.Sprintf("rule %d of chain %s", n+1, w.Name), present, absent)
					} else {
						c.add(fmt.Sprintf("rule %d of chain %s", n+1, w.Name), "the plan's", "another")
					}
				}
			}
			n++
		}
		if n < len(got) {
			c.add("rules of chain "+w.Name, fmt.Sprint(n), fmt.Sprint(len(got)))
		}
	}
	return nil
}

// sets compares what sets there are and what is in them.
func (c *comparison) sets() error {
	type traits struct{ flags, length uint32 }
	there := map[string]traits{}
	if err := c.ask(getSet, flagDump, c.family, text(nil, attributeName, c.table.Name), func(a []byte) {
		flags, length := find(a, setFlags), find(a, setKeyLength)
		if word(find(a, attributeName)) != c.table.Name {
			return
		}
		t := traits{length: binary.BigEndian.Uint32(length)}
		if flags != nil {
			t.flags = binary.BigEndian.Uint32(flags)
		}
		there[word(find(a, attributeSecond))] = t
	}); err != nil {
		return err
	}
	for _, s := range c.table.Sets {
		got, ok := there[s.Name]
		if !ok {
			c.add("set "+s.Name, present, absent)
			continue
		}
		delete(there, s.Name)
		var want traits
		for _, f := range s.Fields {
			want.length += f.length()
		}
		if s.Map {
			want.flags = flagMap
		}
		c.add("kind of set "+s.Name, fmt.Sprint(want), fmt.Sprint(got))
		if err := c.compareElements(s); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		c.add("set "+name, absent, present)
	}
	return nil
}

// compareElements compares the number and the sum of the hashes of elements, whose order means nothing, and looks for those that differ only where one does.
func (c *comparison) compareElements(s Set) error {
	var count, total uint64
	for e := range s.Elements {
		count, total = count+1, total+e.hash()
	}
	read := func(f func(Element)) error {
		return c.ask(getSetElement, flagDump, c.family, text(text(nil, attributeName, c.table.Name), attributeSecond, s.Name), func(a []byte) {
			each(find(a, listElements), func(_ uint16, element []byte) {
				f(Element{Key: find(find(element, elementKey), dataValue), Chain: word(find(find(find(element, elementData), dataVerdict), verdictTo))})
			})
		})
	}
	if err := read(func(e Element) { count, total = count-1, total-e.hash() }); err != nil {
		return err
	}
	if count == 0 && total == 0 {
		return nil
	}
	missing, more := map[string]bool{}, 0
	for e := range s.Elements {
		missing[name(e)] = true
	}
	if err := read(func(e Element) {
		if !missing[name(e)] {
			if more++; more <= most {
				c.add("element "+name(e)+" of set "+s.Name, absent, present)
			}
		}
		delete(missing, name(e))
	}); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(missing))[:min(most, len(missing))] {
		c.add("element "+n+" of set "+s.Name, present, absent)
	}
	return nil
}

func name(e Element) string {
	if e.Chain == "" {
		return fmt.Sprintf("%x", e.Key)
	}
	return fmt.Sprintf("%x : %s", e.Key, e.Chain)
}
