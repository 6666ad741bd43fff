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

// The variants of iptables. Neither sees the tables of the other, and packets pass through both.
const (
	NFT    = "nft"
	Legacy = "legacy"
)

// A Tool stands for the programs of a variant for one family.
type Tool struct {
	// Variant is NFT or Legacy.
	Variant string
	V6      bool
}

// program returns the name of one of them: "ip6tables-nft-restore".
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

// what returns the name of the table in errors.
func (t Tool) what() string { return fmt.Sprintf("table %q of %s", name, t.program("")) }

// name is the name of the table.
const name = "filter"

// Check returns an error if the programs of a variant are missing for one of the families.
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

// Bridged returns an error if the kernel's bridges cannot pass forwarded packets to iptables:
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

// A Table holds the contents of the table "filter". Built-in chains that it does not list are empty, with the policy
// ACCEPT.
type Table struct{ Chains []Chain }

// A Chain is a list of rules.
type Chain struct {
	Name string
	// Policy is the policy at the end of a built-in chain, "ACCEPT" or "DROP"; "" for other chains.
	Policy string
	// Rules are in the format of iptables-save(8), without the "-A" and the name of the chain.
	Rules []string
}

// text returns the table in the format of iptables-restore(8).
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

// An Allowlist is a table that drops every packet that its rules do not accept.
type Allowlist struct {
	V6 bool
	// Stateful accepts packets of known connections before all rules.
	Stateful bool
	// Neighbours accepts neighbour discovery.
	Neighbours bool
	// Hooks are the built-in chains with an allow-list.
	Hooks []Hook
	// Pairs are the pairs between which non-first fragments pass in both directions. If nothing reassembles packets,
	// such fragments have no ports to match. With Stateful there are no Pairs, because connection tracking reassembles
	// packets.
	Pairs []Pair
	// Chains are the chains to which rules of hooks lead.
	Chains []Chain
}

// A Hook is a built-in chain with its rules of the allow-list.
type Hook struct {
	// Name is "FORWARD", "INPUT" or "OUTPUT".
	Name  string
	Rules []string
	// Host says that its packets are for the host itself. Those from its loopback link and from Uplinks pass before all
	// rules.
	Host    bool
	Uplinks []string
}

// A Pair is two addresses in the form of rules: "10.1.1.0/32".
type Pair struct{ A, B string }

// Fragments is the chain for fragments.
const Fragments = "nettoll-fragments"

// OwnChain returns the name of the chain with the rules of a hook.
func OwnChain(hook string) string { return "nettoll-" + strings.ToLower(hook) }

// Rules that [Allowlist.Table] adds to a hook and that [ParseCounters] looks for.
const (
	known   = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
	refused = "-j DROP"
)

// Table returns the list as a table: each hook calls its own chain, and drops packets that return from it.
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
			// and from the same link: no router forwards packets whose hop limit is still 255 (section 7.1)
			for _, kind := range []int{135, 136} {
				c.Rules = append(c.Rules, fmt.Sprintf("-p ipv6-icmp -m icmp6 --icmpv6-type %d -m hl --hl-eq 255 -j ACCEPT", kind))
			}
		}
		c.Rules = append(c.Rules, "-j "+OwnChain(h.Name))
		if !a.Stateful && !h.Host { // packets for the host are reassembled
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
	if a.V6 { // an IPv6 match finds any fragment, including the first, whose ports no rule has accepted
		c.Rules = append(c.Rules, "-m frag --fragfirst -j RETURN")
	}
	for _, p := range a.Pairs {
		c.Rules = append(c.Rules, p.Rules()...)
	}
	t.Chains = append(t.Chains, c)
	return t
}

// Rules returns the rules of the pair in the chain for fragments.
func (p Pair) Rules() []string {
	return []string{fmt.Sprintf("-s %s -d %s -j ACCEPT", p.A, p.B), fmt.Sprintf("-s %s -d %s -j ACCEPT", p.B, p.A)}
}
