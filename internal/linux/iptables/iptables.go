package iptables

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// The variants of iptables. Tables of one are not seen by the other, and packets meet both.
const (
	NFT    = "nft"
	Legacy = "legacy"
)

// A Tool is the programs of a variant for one family.
type Tool struct {
	// Variant is NFT or Legacy.
	Variant string
	V6      bool
}

// program is the name of one of them: "ip6tables-nft-restore".
func (t Tool) program(does string) string {
	name := "iptables"
	if t.V6 {
		name = "ip6tables"
	}
	name += "-" + t.Variant
	if does != "" {
		name += "-" + does
	}
	return name
}

// what is the table in errors.
func (t Tool) what() string { return fmt.Sprintf("table %q of %s", name, t.program("")) }

// name is the table's.
const name = "filter"

// Check wants the programs of a variant, of both families.
func Check(variant string) error {
	for _, v6 := range []bool{false, true} {
		for _, does := range []string{"", "restore", "save"} {
			program := Tool{variant, v6}.program(does)
			if _, err := exec.LookPath(program); err != nil {
				other := NFT
				if variant == NFT {
					other = Legacy
				}
				return &linux.UnsupportedError{
					What: "use iptables", Missing: fmt.Sprintf("program %q", program),
					Hint: fmt.Sprintf("install the package iptables, or use variant %s or filter nftables",
						other), Err: err,
				}
			}
		}
	}
	return nil
}

// Bridged wants a kernel whose bridges can ask iptables about the packets they forward:
// net.bridge.bridge-nf-call-iptables.
func Bridged() error {
	_, err := sysctl.Read("net.bridge.bridge-nf-call-iptables")
	if errors.Is(err, fs.ErrNotExist) {
		return &linux.UnsupportedError{
			What: "filter bridged packets by iptables", Missing: "br_netfilter (CONFIG_BRIDGE_NETFILTER)",
			Hint: "modprobe br_netfilter, or use the filter nftables, or the network routed", Err: err,
		}
	}
	return err
}

// A Table is what the table "filter" holds. Built-in chains that it does not name are empty, with the policy ACCEPT.
type Table struct{ Chains []Chain }

// A Chain is a list of rules.
type Chain struct {
	Name string
	// Policy is what becomes of packets at the end of a built-in chain, "ACCEPT" or "DROP"; "" where the chain is none of
	// those.
	Policy string
	// Rules are written as iptables-save(8) does, without the "-A" and the name of the chain.
	Rules []string
}

// text is the table as iptables-restore(8) reads it.
func (t Table) text() string {
	var b strings.Builder
	b.WriteString("*" + name + "\n")
	for _, c := range t.Chains {
		policy := c.Policy
		if policy == "" {
			policy = "-"
		}
		fmt.Fprintf(&b, ":%s %s [0:0]\n", c.Name, policy)
	}
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			b.WriteString("-A " + c.Name + " " + r + "\n")
		}
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

// An Allowlist is a table that drops whatever its rules do not let pass.
type Allowlist struct {
	V6 bool
	// Stateful lets packets of known connections pass before all rules.
	Stateful bool
	// Neighbours lets neighbour discovery pass.
	Neighbours bool
	// Hooks are the built-in chains that it guards.
	Hooks []Hook
	// Pairs are those between which, either way, fragments pass that are not the first of their packet: where nothing puts
	// packets together, these have no ports to be decided by. With Stateful there are none: connection tracking puts
	// packets together.
	Pairs []Pair
	// Chains are those to which rules of hooks lead.
	Chains []Chain
}

// A Hook is a built-in chain and the rules of the allow-list there.
type Hook struct {
	// Name is "FORWARD", "INPUT" or "OUTPUT".
	Name  string
	Rules []string
	// Host says that its packets are for the host itself. Those from its loopback link and from Uplinks pass before all
	// rules.
	Host    bool
	Uplinks []string
}

// A Pair is two addresses, as rules have them: "10.1.1.0/32".
type Pair struct{ A, B string }

// Fragments is the chain of the fragments.
const Fragments = "nettoll-fragments"

// OwnChain is the chain that holds the rules of a hook.
func OwnChain(hook string) string { return "nettoll-" + strings.ToLower(hook) }

// Rules of a hook's own that [Allowlist.Table] makes and [ParseCounters] looks for.
const (
	known   = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
	refused = "-j DROP"
)

// Table is the list as a table: each hook asks its own chain, and drops what comes back from there.
func (a Allowlist) Table() Table {
	var t Table
	for _, h := range a.Hooks {
		c := Chain{Name: h.Name, Policy: "DROP"}
		for _, link := range h.Uplinks {
			c.Rules = append(c.Rules, "-i "+link+" -j ACCEPT")
		}
		if a.Stateful {
			c.Rules = append(c.Rules, known)
		}
		switch h.Name {
		case "INPUT":
			c.Rules = append(c.Rules, "-i lo -j ACCEPT")
		case "OUTPUT":
			c.Rules = append(c.Rules, "-o lo -j ACCEPT")
		}
		if (a.Neighbours || h.Host) && a.V6 { // ICMPv6 types 135 and 136, RFC 4861 section 4.3 and 4.4
			// and from the same link: no router forwards what still has 255 hops to go (section 7.1)
			for _, kind := range []int{135, 136} {
				c.Rules = append(c.Rules, fmt.Sprintf("-p ipv6-icmp -m icmp6 --icmpv6-type %d -m hl --hl-eq 255 -j ACCEPT", kind))
			}
		}
		c.Rules = append(c.Rules, "-j "+OwnChain(h.Name))
		if !a.Stateful && !h.Host { // what is for the host was put together
			match := "-f"
			if a.V6 {
				match = "-m frag"
			}
			c.Rules = append(c.Rules, match+" -j "+Fragments)
		}
		c.Rules = append(c.Rules, refused)
		t.Chains = append(t.Chains, c)
	}
	for _, h := range a.Hooks {
		t.Chains = append(t.Chains, Chain{Name: OwnChain(h.Name), Rules: h.Rules})
	}
	t.Chains = append(t.Chains, a.Chains...)
	if a.Stateful {
		return t
	}
	c := Chain{Name: Fragments}
	if a.V6 { // a match for IPv6 finds any fragment, the first too, whose ports no rule has let pass
		c.Rules = append(c.Rules, "-m frag --fragfirst -j RETURN")
	}
	for _, p := range a.Pairs {
		c.Rules = append(c.Rules, p.Rules()...)
	}
	t.Chains = append(t.Chains, c)
	return t
}

// Rules are what the pair has in the chain of the fragments.
func (p Pair) Rules() []string {
	return []string{fmt.Sprintf("-s %s -d %s -j ACCEPT", p.A, p.B), fmt.Sprintf("-s %s -d %s -j ACCEPT", p.B, p.A)}
}
