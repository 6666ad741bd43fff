package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// do calls f in a machine of its own.
func do(t *testing.T, f func() error) {
	t.Helper()
	testnet.Skip(t, testnet.New(t).Do(f))
}

func TestTable(t *testing.T) {
	do(t, func() error {
		if err := Delete("t"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Delete of none = %v, want %v", err, ErrNotFound)
		}
		if got, err := Compare(translation()); err != nil ||
			!cmp.Equal(got, []linux.Difference{{What: "table t", Want: linux.Present, Got: linux.Absent}}) {
			t.Errorf("Compare with none = %v, %v", got, err)
		}
		if err := Add(translation()); err != nil {
			return err
		}
		if got, err := Compare(translation()); err != nil || len(got) > 0 {
			t.Errorf("Compare = %v, %v", got, err)
		}
		if err := Add(Table{Name: "t"}); !errors.Is(err, ErrExists) {
			t.Errorf("Add twice = %v, want %v", err, ErrExists)
		}
		if got, err := List(); err != nil || !slices.Equal(got, []string{"t"}) {
			t.Errorf("List = %v, %v", got, err)
		}
		if err := Delete("t"); err != nil {
			t.Errorf("Delete = %v", err)
		}
		got, err := List()
		if len(got) > 0 {
			t.Errorf("after Delete, List = %v", got)
		}
		return err
	})
}

// TestCompareNames changes one thing of a table, and checks that the difference names exactly that.
func TestCompareNames(t *testing.T) {
	inet := nftables.TableFamilyINet
	type change = func(c *nftables.Conn, table *nftables.Table) error
	rules := func(c *nftables.Conn, table *nftables.Table, chain string) ([]*nftables.Rule, error) {
		return c.GetRules(table, &nftables.Chain{Name: chain})
	}
	addRule := func(c *nftables.Conn, table *nftables.Table, chain string, exprs ...expr.Any) {
		c.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Table: table, Name: chain}, Exprs: exprs})
	}
	entry := func(change func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error) change {
		return func(c *nftables.Conn, table *nftables.Table) error {
			set, err := c.GetSetByName(table, "four")
			if err != nil {
				return err
			}
			return change(c, set, elements(translation().Maps[0].Entries[:1]))
		}
	}
	for _, k := range []struct {
		name   string
		change change
		want   []string
	}{
		{"nothing", func(*nftables.Conn, *nftables.Table) error { return nil }, nil},
		{"dormant", func(c *nftables.Conn, table *nftables.Table) error {
			return setDormant(c, table)
		}, []string{"table t: want active, got dormant"}},
		{"rule gone", func(c *nftables.Conn, table *nftables.Table) error {
			list, err := rules(c, table, "out")
			if err != nil {
				return err
			}
			return c.DelRule(list[0])
		}, []string{`rule "ip saddr 10.1.0.0/16 snat ip to 198.18.0.1" of chain out: want present, got absent`}},
		{"rule more", func(c *nftables.Conn, table *nftables.Table) error {
			addRule(c, table, "out", &expr.Verdict{Kind: expr.VerdictDrop})
			return nil
		}, []string{"rule 4 of chain out: want one of the plan's, got another"}},
		{"rule changed", func(c *nftables.Conn, table *nftables.Table) error {
			list, err := rules(c, table, "out")
			if err != nil {
				return err
			}
			r := translation().Chains[1].Rules[0]
			r.SNAT = netip.MustParseAddr("198.18.0.2")
			list[0].Exprs = r.expressions(nil)
			c.ReplaceRule(list[0])
			return nil
		}, []string{
			`rule "ip saddr 10.1.0.0/16 snat ip to 198.18.0.1" of chain out: want present, got absent`,
			"rule 1 of chain out: want one of the plan's, got another",
		}},
		{"order", func(c *nftables.Conn, table *nftables.Table) error {
			list, err := rules(c, table, "in")
			if err != nil {
				return err
			}
			addRule(c, table, "in", list[0].Exprs...)
			return c.DelRule(list[0])
		}, []string{"rules of chain in: want in order, got in another order"}},
		{"policy", func(c *nftables.Conn, table *nftables.Table) error {
			drop := nftables.ChainPolicyDrop
			c.AddChain(&nftables.Chain{Table: table, Name: "in", Policy: &drop})
			return nil
		}, []string{"chain in: want type nat hook prerouting priority -100 policy accept, got type nat hook prerouting " +
			"priority -100 policy drop"}},
		{"chain gone", func(c *nftables.Conn, table *nftables.Table) error {
			chain := &nftables.Chain{Table: table, Name: "in"}
			c.FlushChain(chain)
			c.DelChain(chain)
			return nil
		}, []string{"chain in: want present, got absent"}},
		{"chain more", func(c *nftables.Conn, table *nftables.Table) error {
			c.AddChain(&nftables.Chain{Table: table, Name: "x"})
			return nil
		}, []string{"chain x: want absent, got present"}},
		{"set more", func(c *nftables.Conn, table *nftables.Table) error {
			return c.AddSet(&nftables.Set{Table: table, ID: 1, Name: "x", KeyType: nftables.TypeInetService}, nil)
		}, []string{"set x: want absent, got present"}},
		{"map gone", func(c *nftables.Conn, table *nftables.Table) error {
			c.DelSet(&nftables.Set{Table: table, Name: "none"})
			return nil
		}, []string{"map none: want present, got absent"}},
		{"entry gone", entry(func(c *nftables.Conn, s *nftables.Set, e []nftables.SetElement) error {
			return c.SetDeleteElements(s, e)
		}), []string{`entry "20000-20009 : 10.1.1.0" of map four: want present, got absent`}},
		{"entry changed", entry(func(c *nftables.Conn, s *nftables.Set, e []nftables.SetElement) error {
			if err := c.SetDeleteElements(s, e); err != nil {
				return err
			}
			return c.SetAddElements(s, elements([]Entry{{20000, 20009, netip.MustParseAddr("10.1.1.9")}}))
		}), []string{
			`entry "20000-20009 : 10.1.1.0" of map four: want present, got absent`,
			`entry "20000-20009 : 10.1.1.9" of map four: want absent, got present`,
		}},
		{"entry shorter", entry(func(c *nftables.Conn, s *nftables.Set, e []nftables.SetElement) error {
			if err := c.SetDeleteElements(s, e); err != nil {
				return err
			}
			return c.SetAddElements(s, elements([]Entry{{20000, 20008, netip.MustParseAddr("10.1.1.0")}}))
		}), []string{
			`entry "20000-20009 : 10.1.1.0" of map four: want present, got absent`,
			`entry "20000-20008 : 10.1.1.0" of map four: want absent, got present`,
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			do(t, func() error {
				if err := Add(translation()); err != nil {
					return err
				}
				c, err := nftables.New()
				if err != nil {
					return err
				}
				if err := errors.Join(k.change(c, &nftables.Table{Name: "t", Family: inet}), c.Flush()); err != nil {
					return fmt.Errorf("change: %w", err)
				}
				list, err := Compare(translation())
				var got []string
				for _, d := range list {
					got = append(got, fmt.Sprintf("%s: want %s, got %s", d.What, d.Want, d.Got))
				}
				if diff := cmp.Diff(k.want, got); diff != "" {
					t.Errorf("differences (-want +got):\n%s", diff)
				}
				return errors.Join(err, Delete("t"))
			})
		})
	}
}

// TestLarge makes a table for as many containers as a bridge has ports.
func TestLarge(t *testing.T) {
	table := Table{Name: "large", Maps: []Map{{Name: "four"}, {Name: "six", IPv6: true}}}
	for i := range 1023 {
		first := uint16(1024 + 60*i)
		four, six := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}),
			netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8), 15: byte(i)})
		table.Maps[0].Entries = append(table.Maps[0].Entries, Entry{first, first + 59, four})
		table.Maps[1].Entries = append(table.Maps[1].Entries, Entry{first, first + 59, six})
	}
	do(t, func() error {
		if err := Add(table); err != nil {
			return err
		}
		if got, err := Compare(table); err != nil || len(got) > 0 {
			t.Errorf("Compare = %d differences, %v", len(got), err)
		}
		return nil
	})
}

// TestAddFails checks that the error names what the kernel lacks, and that no table is left.
func TestAddFails(t *testing.T) {
	do(t, func() error {
		table := translation()
		table.Chains[1].Type = "none"
		err := Add(table)
		u, ok := errors.AsType[*linux.UnsupportedError](err)
		if !ok || !strings.HasPrefix(u.Missing, `nftables chain type "none" for inet`) {
			t.Errorf("Add with an unknown type of chain = %v", err)
		}
		table = translation()
		table.Chains[1].Hook = "input" // possible, although forwarded packets do not come here
		table.Chains[0].Hook = "forward"
		if err := Add(table); err == nil || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Add with nat at a hook where there is none = %v", err)
		}
		if err := Add(Table{}); err == nil || !strings.Contains(err.Error(), "a table without a name") {
			t.Errorf("Add without a name = %v", err)
		}
		got, err := List()
		if len(got) > 0 {
			t.Errorf("List = %v, want nothing", got)
		}
		return err
	})
}

// setDormant makes a table dormant, which the library cannot do.
func setDormant(_ *nftables.Conn, table *nftables.Table) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(table.Name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: []byte{0, 0, 0, unix.NFT_TABLE_F_DORMANT}},
	})
	if err != nil {
		return err
	}
	// struct nfgenmsg, include/uapi/linux/netfilter/nfnetlink.h: family, version, the subsystem of a batch.
	about := func(family byte, subsystem byte) []byte { return []byte{family, 0, 0, subsystem} }
	message := func(kind netlink.HeaderType, flags netlink.HeaderFlags, data []byte) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | flags}, Data: data}
	}
	if _, err := c.SendMessages([]netlink.Message{
		message(unix.NFNL_MSG_BATCH_BEGIN, 0, about(0, unix.NFNL_SUBSYS_NFTABLES)),
		message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, netlink.Acknowledge,
			append(about(byte(table.Family), 0), attributes...)),
		message(unix.NFNL_MSG_BATCH_END, 0, about(0, unix.NFNL_SUBSYS_NFTABLES)),
	}); err != nil {
		return err
	}
	_, err = c.Receive()
	return err
}
