package nft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// families are the names of nft(8).
func families() map[nftables.TableFamily]string {
	return map[nftables.TableFamily]string{
		nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
		nftables.TableFamilyARP: "arp", nftables.TableFamilyBridge: "bridge", nftables.TableFamilyNetdev: "netdev",
	}
}

// Contents returns the tables of all families, as nft(8) names them ("ip nat"), each with its chains and how many rules
// they have. Tables of iptables by nf_tables are among them.
func Contents() (map[string]map[string]int, error) {
	const what = "list chains of nftables"
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	tables, err := c.ListTables()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, &linux.UnsupportedError{What: what, Missing: "nftables (CONFIG_NF_TABLES)", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	found := map[string]map[string]int{}
	name := func(t *nftables.Table) string { return families()[t.Family] + " " + t.Name }
	for _, t := range tables {
		found[name(t)] = map[string]int{}
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for _, chain := range chains {
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil {
			return nil, fmt.Errorf("%s: read %s %s: %w", what, name(chain.Table), chain.Name, err)
		}
		if in := found[name(chain.Table)]; in != nil {
			in[chain.Name] = len(rules)
		}
	}
	return found, nil
}

// Drop removes a table of any family, as [Contents] names it, and everything in it. If it is already gone, the error is
// [ErrNotFound].
func Drop(table string) error {
	family, name, _ := strings.Cut(table, " ")
	for f, text := range families() {
		if text != family {
			continue
		}
		c, err := nftables.New()
		if err == nil {
			c.DelTable(&nftables.Table{Family: f, Name: name})
			err = c.Flush()
		}
		if errors.Is(err, unix.ENOENT) {
			err = ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("remove table %q of nftables: %w", table, err)
		}
		return nil
	}
	return fmt.Errorf("remove table %q of nftables: unknown family %q", table, family)
}
