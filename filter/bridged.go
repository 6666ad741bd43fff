package filter

import (
	"context"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
)

// Bridged returns the steps by which br_netfilter hands what a bridge forwards to iptables and to tables inet of
// nftables: packets of both families, those with a tag of a VLAN among them, which would pass beside them otherwise
// (net/bridge/br_netfilter_hooks.c, br_nf_pre_routing). What it does not hand on is dropped by [Frames]. Filters have
// its kind among their steps.
func Bridged() []host.Step {
	var steps []host.Step
	for _, key := range []string{"call-iptables", "call-ip6tables", "filter-vlan-tagged"} {
		// whether the kernel has it at all is the filter's step to say
		steps = append(steps, host.Sysctl{Key: "net.bridge.bridge-nf-" + key, Value: "1", IfPresent: true})
	}
	return append(steps, Frames{})
}

// Frames is a step that drops what bridges of a host forward and what is neither IPv4, IPv6 nor ARP. br_netfilter lets
// that pass unseen, and not all of it is harmless: a receiver takes off any number of tags with the number 0
// (__netif_receive_skb_core, net/core/dev.c), and br_netfilter looks behind one.
type Frames struct{}

// Kind returns "frames".
func (Frames) Kind() string { return "frames" }

// String says the step as a person would.
func (Frames) String() string {
	return "nftables at bridges: drop frames that hold neither IPv4, IPv6 nor ARP"
}

const frames = "nettoll-frames"

// bridgedPriority is that of filters at a bridge: NF_BR_PRI_FILTER_BRIDGED, include/uapi/linux/netfilter_bridge.h.
const bridgedPriority = -200

func (Frames) table() ruleset.Table {
	var rules []ruleset.Rule
	w := ruleset.Word(0)
	// include/uapi/linux/if_ether.h; of a frame with a tag it is what is behind the outer one
	for _, kind := range [][]byte{{0x08, 0x00}, {0x86, 0xdd}, {0x08, 0x06}} {
		rules = append(rules, ruleset.Rule(nil).LoadMeta(w, ruleset.EtherType).Equal(w, kind...).Accept())
	}
	return ruleset.Table{Family: "bridge", Name: frames, Chains: []ruleset.Chain{
		{Name: "forward", Hook: &ruleset.Hook{Name: "forward", Priority: bridgedPriority}, Rules: ruleset.All(rules...)},
	}}
}

// Apply makes a table of the family bridge.
func (f Frames) Apply(_ context.Context, k *host.Kernel) error {
	return k.Do("", func() error { return ruleset.Add(f.table()) })
}

// Remove deletes the table.
func (f Frames) Remove(_ context.Context, k *host.Kernel) error {
	return deleted(k.Do("", func() error { return ruleset.Delete("bridge", frames) }))
}

// Verify reads the table back.
func (f Frames) Verify(k *host.Kernel) error { return verified(k, f.String(), f.table()) }
