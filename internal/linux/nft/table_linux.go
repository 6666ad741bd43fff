package nft

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// Add makes a table with everything in it, in one transaction: all of it or nothing. If the table already exists, the
// error is [ErrExists]; if the kernel lacks something, it is a [linux.UnsupportedError].
func Add(t Table) error {
	what := fmt.Sprintf("make table %q of nftables", t.Name)
	if err := t.Check(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err := send(t, false)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s: %w", what, ErrExists)
	case errors.Is(err, unix.EPERM):
		return &linux.UnsupportedError{What: what, Missing: "CAP_NET_ADMIN", Hint: "run it as root", Err: err}
	}
	if missing := lacking(t); missing != "" {
		return &linux.UnsupportedError{
			What: what, Missing: missing, Hint: "load the kernel's modules for it, or use a kernel that has it", Err: err,
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// lacking returns what the kernel lacks for a table that cannot be made; "" if it cannot tell. It looks for the
// smallest part that cannot be made either.
func lacking(t Table) string {
	tries := []struct {
		missing string
		table   Table
	}{{"nftables (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET)", Table{}}}
	for _, c := range t.Chains {
		c.Rules = nil
		tries = append(tries, struct {
			missing string
			table   Table
		}{fmt.Sprintf("nftables chain type %q for inet (CONFIG_NFT_NAT, CONFIG_NF_NAT)", c.Type), Table{Chains: []Chain{c}}})
	}
	for _, m := range t.Maps {
		tries = append(tries, struct {
			missing string
			table   Table
		}{"nftables maps of intervals (CONFIG_NF_TABLES)", Table{Maps: []Map{m}}})
	}
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			c.Rules = []Rule{r}
			tries = append(tries, struct {
				missing string
				table   Table
			}{fmt.Sprintf("nftables rule %q", r), Table{Chains: []Chain{c}, Maps: t.Maps}})
		}
	}
	for _, try := range tries {
		try.table.Name = t.Name
		if err := send(try.table, true); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) ||
			errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
			return try.missing
		}
	}
	return ""
}

// chunk is the number of entries of a map in one message, whose attributes have lengths of 16 bits (struct nlattr,
// include/uapi/linux/netlink.h). An entry takes about a hundred bytes.
const chunk = 256

// sendBuffer is the buffer for the transaction, which is one message. The kernel doubles it, up to net.core.wmem_max
// (net/core/sock.c, sock_setsockopt).
const sendBuffer = 1 << 20

// send makes a table. If dry is set, the transaction also removes it again, so that the kernel checks it and nothing is
// changed.
func send(t Table, dry bool) error {
	c, err := nftables.New(nftables.WithSockOptions(func(s *netlink.Conn) error { return s.SetWriteBuffer(sendBuffer) }))
	if err != nil {
		return err
	}
	table := c.CreateTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: t.Name})
	ids := map[string]uint32{}
	for i, m := range t.Maps {
		set := m.set(table)
		set.ID = uint32(i + 1) // the library takes its own from a variable without a lock
		ids[m.Name] = set.ID
		if err := c.AddSet(set, nil); err != nil {
			return err
		}
		for part := range slices.Chunk(m.Entries, chunk) {
			if err := c.SetAddElements(set, elements(part)); err != nil {
				return err
			}
		}
	}
	for _, chain := range t.Chains {
		hook, ok := hooks()[chain.Hook]
		if !ok {
			return fmt.Errorf("hook %q (known: prerouting, input, forward, output, postrouting)", chain.Hook)
		}
		priority, accept := nftables.ChainPriority(chain.Priority), nftables.ChainPolicyAccept
		into := c.AddChain(&nftables.Chain{
			Table: table, Name: chain.Name, Type: nftables.ChainType(chain.Type),
			Hooknum: &hook, Priority: &priority, Policy: &accept,
		})
		for _, r := range chain.Rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: into, Exprs: r.expressions(ids)})
		}
	}
	if dry {
		c.DelTable(table)
	}
	return c.Flush()
}

// Delete removes a table and everything in it. If it is already gone, the error is [ErrNotFound].
func Delete(name string) error {
	c, err := nftables.New()
	if err == nil {
		c.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: name})
		err = c.Flush()
	}
	if errors.Is(err, unix.ENOENT) {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove table %q of nftables: %w", name, err)
	}
	return nil
}

// List returns the names of all tables of the family inet.
func List() ([]string, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, &linux.UnsupportedError{What: "list tables of nftables", Missing: "nftables (CONFIG_NF_TABLES)", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Name
	}
	slices.Sort(names)
	return names, nil
}

// Compare reads a table and returns the differences. A missing table is a difference, as is anything in it that is not
// wanted.
func Compare(want Table) ([]linux.Difference, error) {
	what := fmt.Sprintf("read table %q of nftables", want.Name)
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	table, err := c.ListTableOfFamily(want.Name, nftables.TableFamilyINet)
	if errors.Is(err, unix.ENOENT) {
		return []linux.Difference{{What: "table " + want.Name, Want: linux.Present, Got: linux.Absent}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	d := &differences{}
	// The kernel writes the flags in network byte order; the library reads them in that of the machine.
	if binaryutil.BigEndian.Uint32(binaryutil.NativeEndian.PutUint32(table.Flags))&unix.NFT_TABLE_F_DORMANT != 0 {
		d.add("table "+want.Name, "active", "dormant")
	}
	if err := errors.Join(d.maps(c, table, want.Maps), d.chains(c, table, want.Chains)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return d.list, nil
}

// differences collects the differences.
type differences struct{ list []linux.Difference }

func (d *differences) add(what, want, got string) {
	if want != got {
		d.list = append(d.list, linux.Difference{What: what, Want: want, Got: got})
	}
}

func (d *differences) maps(c *nftables.Conn, table *nftables.Table, want []Map) error {
	found, err := c.GetSets(table)
	if err != nil {
		return err
	}
	rest := map[string]*nftables.Set{}
	for _, s := range found {
		rest[s.Name] = s
	}
	for _, m := range want {
		what := "map " + m.Name
		got, ok := rest[m.Name]
		delete(rest, m.Name)
		if !ok {
			d.add(what, linux.Present, linux.Absent)
			continue
		}
		set := m.set(table)
		d.add("type of "+what, kind(set), kind(got))
		elements, err := c.GetSetElements(got)
		if err != nil {
			return err
		}
		there, err := entries(elements)
		if err != nil {
			return fmt.Errorf("map %q: %w", m.Name, err)
		}
		for _, e := range m.Entries {
			d.add(fmt.Sprintf("entry %q of %s", e, what), linux.Present, presence(there[e]))
			delete(there, e)
		}
		for _, e := range slices.SortedFunc(maps.Keys(there), func(a, b Entry) int { return cmp.Compare(a.First, b.First) }) {
			d.add(fmt.Sprintf("entry %q of %s", e, what), linux.Absent, linux.Present)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		d.add("set "+name, linux.Absent, linux.Present)
	}
	return nil
}

func kind(s *nftables.Set) string {
	return fmt.Sprintf("%s : %s, interval %t, map %t", s.KeyType.Name, s.DataType.Name, s.Interval, s.IsMap)
}

func presence(is bool) string {
	if is {
		return linux.Present
	}
	return linux.Absent
}

func (d *differences) chains(c *nftables.Conn, table *nftables.Table, want []Chain) error {
	found, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return err
	}
	rest := map[string]*nftables.Chain{}
	for _, f := range found {
		if f.Table.Name == table.Name {
			rest[f.Name] = f
		}
	}
	for _, w := range want {
		what := "chain " + w.Name
		got, ok := rest[w.Name]
		delete(rest, w.Name)
		if !ok {
			d.add(what, linux.Present, linux.Absent)
			continue
		}
		d.add(what, fmt.Sprintf("type %s hook %s priority %d policy accept", w.Type, w.Hook, w.Priority), describe(got))
		rules, err := c.GetRules(table, got)
		if err != nil {
			return err
		}
		if err := d.rules(what, w.Rules, rules); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		d.add("chain "+name, linux.Absent, linux.Present)
	}
	return nil
}

// rules compares the rules of a chain by their bytes.
func (d *differences) rules(chain string, want []Rule, got []*nftables.Rule) error {
	there := make([][]byte, len(got))
	for i, r := range got {
		var err error
		if there[i], err = encode(r.Exprs); err != nil {
			return err
		}
	}
	used := make([]bool, len(got))
	ordered, last := true, -1
	for _, w := range want {
		code, err := encode(w.expressions(nil))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(there, func(t []byte) bool { return bytes.Equal(t, code) })
		if i < 0 {
			d.add(fmt.Sprintf("rule %q of %s", w, chain), linux.Present, linux.Absent)
			continue
		}
		ordered, last, used[i] = ordered && i > last, i, true
	}
	if !ordered {
		d.add("rules of "+chain, "in order", "in another order")
	}
	for i := range got {
		if !used[i] {
			d.add(fmt.Sprintf("rule %d of %s", i+1, chain), "one of the plan's", "another")
		}
	}
	return nil
}

func encode(list []expr.Any) ([]byte, error) {
	var b []byte
	for _, e := range list {
		if l, ok := e.(*expr.Lookup); ok { // the number belongs to a transaction
			l.SetID = 0
		}
		part, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			return nil, err
		}
		b = append(b, part...)
	}
	return b, nil
}

func describe(c *nftables.Chain) string {
	if c.Hooknum == nil || c.Priority == nil {
		return "no hook"
	}
	name := fmt.Sprint(*c.Hooknum)
	for n, h := range hooks() {
		if h == *c.Hooknum {
			name = n
		}
	}
	policy := "accept"
	if c.Policy != nil && *c.Policy != nftables.ChainPolicyAccept {
		policy = "drop"
	}
	return fmt.Sprintf("type %s hook %s priority %d policy %s", c.Type, name, *c.Priority, policy)
}

// hooks returns the hooks of the family inet, include/uapi/linux/netfilter.h.
func hooks() map[string]nftables.ChainHook {
	return map[string]nftables.ChainHook{
		"prerouting":  unix.NF_INET_PRE_ROUTING,
		"input":       unix.NF_INET_LOCAL_IN,
		"forward":     unix.NF_INET_FORWARD,
		"output":      unix.NF_INET_LOCAL_OUT,
		"postrouting": unix.NF_INET_POST_ROUTING,
	}
}

func (m Map) set(table *nftables.Table) *nftables.Set {
	data := nftables.TypeIPAddr
	if m.IPv6 {
		data = nftables.TypeIP6Addr
	}
	return &nftables.Set{
		Table: table, Name: m.Name, IsMap: true, Interval: true,
		KeyType: nftables.TypeInetService, DataType: data, KeyByteOrder: binaryutil.BigEndian,
	}
}

// elements returns entries in the kernel's form of intervals: an element at the beginning of each, and an end element
// after it, unless it ends with the last port (net/netfilter/nft_set_rbtree.c).
func elements(list []Entry) []nftables.SetElement {
	var found []nftables.SetElement
	for _, e := range list {
		found = append(found, nftables.SetElement{Key: binary.BigEndian.AppendUint16(nil, e.First), Val: e.To.AsSlice()})
		if e.Last < 1<<16-1 {
			found = append(found, nftables.SetElement{Key: binary.BigEndian.AppendUint16(nil, e.Last+1), IntervalEnd: true})
		}
	}
	return found
}

// entries reverses elements, whose order has no meaning.
func entries(list []nftables.SetElement) (map[Entry]bool, error) {
	var starts []Entry
	var ends []uint16
	for _, e := range list {
		if len(e.Key) != 2 {
			return nil, fmt.Errorf("a key of %d bytes instead of 2", len(e.Key))
		}
		port := binary.BigEndian.Uint16(e.Key)
		if e.IntervalEnd {
			ends = append(ends, port)
			continue
		}
		to, ok := netip.AddrFromSlice(e.Val)
		if !ok {
			return nil, fmt.Errorf("%d bytes for port %d instead of an address", len(e.Val), port)
		}
		starts = append(starts, Entry{First: port, To: to})
	}
	slices.Sort(ends)
	found := map[Entry]bool{}
	for _, e := range starts {
		e.Last = 1<<16 - 1
		if i, _ := slices.BinarySearch(ends, e.First+1); i < len(ends) && e.First < e.Last {
			e.Last = ends[i] - 1
		}
		found[e] = true
	}
	return found, nil
}

// Offsets of the fields, RFC 791 section 3.1, RFC 8200 section 3, RFC 768 and RFC 9293 section 3.1.
const (
	source4, destination4 = 12, 16
	source6, destination6 = 8, 24
	destinationPort       = 2
)

// register is the register of all expressions: the first one of 16 bytes.
const register = unix.NFT_REG_1

// expressions returns a rule in the kernel's form. ids are the maps' numbers in the transaction.
func (r Rule) expressions(ids map[string]uint32) []expr.Any {
	var list []expr.Any
	is := func(data ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data} }
	family := byte(unix.NFPROTO_IPV4)
	for _, a := range []netip.Addr{r.Source.Addr(), r.Destination.Addr(), r.SNAT} {
		if a.IsValid() {
			if a.Is6() {
				family = unix.NFPROTO_IPV6
			}
			list = append(list, &expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register}, is(family))
			break
		}
	}
	for _, p := range []struct {
		prefix netip.Prefix
		at4    uint32
		at6    uint32
	}{{r.Source, source4, source6}, {r.Destination, destination4, destination6}} {
		if !p.prefix.IsValid() || p.prefix.Bits() == 0 {
			continue
		}
		at := p.at4
		if p.prefix.Addr().Is6() {
			at = p.at6
		}
		data := p.prefix.Masked().Addr().AsSlice()[:(p.prefix.Bits()+7)/8]
		list = append(list, &expr.Payload{
			OperationType: expr.PayloadLoad, DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: at,
			Len: uint32(len(data)),
		})
		if odd := p.prefix.Bits() % 8; odd != 0 {
			mask := bytes.Repeat([]byte{0xff}, len(data))
			mask[len(mask)-1] <<= 8 - odd
			list = append(list, &expr.Bitwise{
				SourceRegister: register, DestRegister: register, Len: uint32(len(data)), Mask: mask, Xor: make([]byte, len(data)),
			})
		}
		list = append(list, is(data...))
	}
	if r.Protocol != "" {
		number := byte(unix.IPPROTO_UDP)
		if r.Protocol == "tcp" {
			number = unix.IPPROTO_TCP
		}
		list = append(list, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, is(number))
	}
	// The kernel returns both ends of the range of addresses even if only one was given (net/netfilter/nft_nat.c,
	// nft_nat_dump).
	nat := &expr.NAT{Family: uint32(family), RegAddrMin: register, RegAddrMax: register}
	switch {
	case r.DNAT != "":
		nat.Type = expr.NATTypeDestNAT
		list = append(list,
			&expr.Payload{
				OperationType: expr.PayloadLoad, DestRegister: register, Base: expr.PayloadBaseTransportHeader,
				Offset: destinationPort, Len: 2,
			},
			&expr.Lookup{
				SourceRegister: register, DestRegister: register, IsDestRegSet: true, SetName: r.DNAT,
				SetID: ids[r.DNAT],
			},
			nat)
	case r.SNAT.IsValid():
		nat.Type = expr.NATTypeSourceNAT
		list = append(list, &expr.Immediate{Register: register, Data: r.SNAT.AsSlice()}, nat)
	}
	return list
}
