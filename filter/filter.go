package filter

import (
	"math"
	"net/netip"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// A Filter is a way to enforce an allow-list.
type Filter interface {
	// Describe says what it is.
	Describe() Description
	// Refuse returns why it cannot be enforced there with these parameters, "" where it can. It is pure.
	Refuse(w Where, p part.Params) string
	// Build returns the steps for one host, which come after those of its network: at least one of them is a [Step]. It is
	// pure.
	Build(s Site) ([]host.Step, error)
}

// A Naming filter has a list of the names of containers instead of addresses.
type Naming interface {
	Filter
	// Names says so: then a pair may talk in every family of which it has addresses.
	Names() bool
}

// A Decoyed filter tells how many decoy rules it has.
type Decoyed interface {
	Filter
	// Decoys returns that.
	Decoys(p part.Params) int
}

// A ClusterWide filter may have policies of a whole cluster instead of those of a namespace.
type ClusterWide interface {
	Filter
	// WholeCluster says whether it has them.
	WholeCluster(p part.Params) bool
}

// EnforceTime is the metric of filters that others enforce than who has set them.
const EnforceTime = "enforce_time"

// A Description says what a filter is.
type Description struct {
	// Description is what parts of all kinds have; its parameters are those of [Params] and the filter's own.
	part.Description
	// Fragments says what it does with fragments that are not the first of their packet.
	Fragments func(part.Params) Fragments
	// Errors says what it does with errors of ICMP that quote a packet of an allowed flow.
	Errors func(part.Params) Errors
	// Extensions says what it does with packets of IPv6 that have hop-by-hop or destination options before what the list
	// allows.
	Extensions func(part.Params) Extensions
	// Claims says what it protects against where it stands, see [Claims].
	Claims func(at network.Point, p part.Params) threat.Claims
	// Steps are the kinds of steps it builds that are its own, see [host.Decoder].
	Steps map[string]func() host.Step
}

// Fragments is what a filter does with fragments that are not the first of their packet: these hold no ports (RFC 791,
// section 3.2).
type Fragments string

// The ways to treat fragments.
const (
	// Reassembled: packets are put together before they are decided.
	Reassembled Fragments = "reassembled"
	// ByAddress: they pass where any packet from their source to their destination may.
	ByAddress Fragments = "by address"
)

// Errors is what a filter does with errors of ICMP, among them those that say that a packet was too big (RFC 1191, RFC
// 8201). Those that quote no packet of an allowed flow never pass.
type Errors string

// The ways to treat errors of ICMP.
const (
	// ByConnection: they pass to the end that has sent what they quote, by connection tracking, whoever sends them.
	ByConnection Errors = "by connection"
	// Refused: none passes.
	Refused Errors = "refused"
)

// Extensions is what a filter does with headers of IPv6 between that of a packet and that with its ports (RFC 8200,
// section 4). What is behind them never passes where it would not without them.
type Extensions string

// The ways to treat headers of IPv6.
const (
	// Followed: the packet is what it is behind its options.
	Followed Extensions = "followed"
	// NotFollowed: packets with options do not pass.
	NotFollowed Extensions = "not followed"
)

// A Where describes a lab to a filter, which decides whether it can be enforced there.
type Where struct {
	// Network is the name of the network, for the reason.
	Network string
	Point   network.Point
	// Hosts is how many hosts the lab has.
	Hosts int
	// Translated says that packets have other addresses before the point than at it.
	Translated bool
}

// Names of the parameters that all filters have.
const (
	Rules    = "rules"
	Decoys   = "fillers"
	Stateful = "stateful"
	// Antispoof binds each container's addresses to its link, see [Binding].
	Antispoof = "antispoof"
)

// MaxRules is the largest number of decoy rules.
const MaxRules = 100_000

// Params are the parameters that every filter has.
func Params() part.List {
	stateful := part.Switch(Stateful, "allow answers by connection tracking: packets of known connections pass before "+
		"all rules; otherwise by separate rules for packets from the sink's ports to the source's that open no connection")
	antispoof := part.Switch(Antispoof, "bind the MAC and IP addresses of each container to its link on the host, and "+
		"drop packets, ARP and neighbour discovery from other source addresses, and packets for other destinations; "+
		"otherwise any container can take the address of another")
	antispoof.Quiet = true
	return part.List{
		{Name: Rules, Default: "0", Summary: "number of decoy rules or entries, which never match: 0 to 100000 in each " +
			"measured address family", Check: part.CountBetween(0, MaxRules)},
		{
			Name: Decoys, Default: "before",
			Summary: "position of the decoy rules: before or after the rules of the pairs",
			Values:  []string{"before", "after"},
		},
		stateful,
		antispoof,
	}
}

// A Site describes one host to a filter: what it must enforce, and where.
type Site struct {
	// Point and Bridge are what the network says of itself: see [network.Filterable].
	Point  network.Point
	Bridge string
	// BridgeMAC is the MAC address of the bridge's own link on the host; "" where the filter is not at an Open vSwitch.
	BridgeMAC string
	// Host counts from 1; Hosts is how many there are.
	Host, Hosts int
	// Inlets are the links by which packets of other hosts arrive, that to the underlay first; none in a lab of one host.
	Inlets []network.Inlet
	// Underlay are the host's addresses there, none in a lab of one host.
	Underlay []netip.Addr
	// Containers are those of the host.
	Containers []Container
	// List is what may pass on this host.
	List List
	// Params are the filter's own, every one present.
	Params part.Params
}

// A Container is a container of the host.
type Container struct {
	Name string
	network.Endpoint
}

// A List is an allow-list, as data in a step.
type List struct {
	// Families are those whose pairs may talk and whose decoy rules there are: "ipv4", "ipv6". Of the others nothing may
	// pass.
	Families []string `json:"families"`
	// Allowed are the rules of the pairs, of the families listed.
	Allowed []Rule `json:"allowed,omitempty"`
	// Decoys is how many rules that never match there are in each family.
	Decoys int `json:"fillers,omitempty"`
	// After says that they stand behind those of the pairs.
	After bool `json:"after,omitempty"`
	// Stateful says that answers pass by connection tracking.
	Stateful bool `json:"stateful,omitempty"`
	// Proof is what the filter can be tried with; nil where the host has not both ends of a pair.
	Proof *ProofPacket `json:"probe,omitempty"`
	// Across is what it can be tried with together with another host, which has the other end; nil elsewhere. Of all hosts
	// of a lab it is the same flow: each has the rule that lets it through there.
	Across *ProofPacket `json:"across,omitempty"`
}

// A Rule allows a source to send from some of its ports to some ports of a sink, over UDP and TCP, and to send it ICMP
// echo requests. Addresses are those seen at the filter's point.
type Rule struct {
	Source netip.Addr `json:"source"`
	Sink   netip.Addr `json:"sink"`
	// First and Last are the sink's ports and all between them.
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
	// SourceFirst and SourceLast are the source's ports and all between them: packets to the sink are sent from there, and
	// answers to there.
	SourceFirst uint16 `json:"source_first"`
	SourceLast  uint16 `json:"source_last"`
	// Published says that one of the two is known by an address of its host, where its ports are published: what has none,
	// as an echo, would reach the host, and does not pass.
	Published bool `json:"published,omitempty"`
}

// FromAnyPort says whether the source may send from all of its ports.
func (r Rule) FromAnyPort() bool { return r.SourceFirst == 0 && r.SourceLast == math.MaxUint16 }

// A ProofPacket describes packets between the two ends of an allowed pair that the list does not allow, because they
// are for the sink's last port. They show when a rule update takes effect.
type ProofPacket struct {
	// SourceNS and SinkNS are namespace references, as in steps.
	SourceNS string `json:"source_ns"`
	SinkNS   string `json:"sink_ns"`
	// Source and Sink are what the sockets bind to, Public is where the source sends to.
	Source netip.AddrPort `json:"source"`
	Sink   netip.AddrPort `json:"sink"`
	Public netip.AddrPort `json:"public"`
	// Rule lets the flow through.
	Rule Rule `json:"rule"`
}

// A Step is a step that enforces a list.
type Step interface {
	host.CostMeter
	// Listed returns the list.
	Listed() List
	// UpdateRule adds a rule to those that stand, or takes one of those that it has added away again, while packets flow
	// and without a moment in which others pass or are held up. Undoing the step removes what was added, too. Verify keeps
	// to what the step says: it calls an added rule a drift.
	UpdateRule(k *host.Kernel, r Rule, allow bool) error
	Counting
}

// A Counting step counts the packets that it allows and refuses.
type Counting interface {
	host.Step
	// Counters returns how many packets were let through and how many were refused since the step was applied.
	Counters(k *host.Kernel) (Counters, error)
}

// Counters are the numbers of packets that a filter has allowed and refused.
type Counters struct{ Allowed, Refused uint64 }

// Placed is a filter that is not always enforced at the network's filter point.
type Placed interface {
	// Enforced says where it stands: the end of "enforced …".
	Enforced(at network.Point, p part.Params) string
}

// Said of hosts: the end of a sentence. OfHosts is what every filter on a host does about the hosts of containers, and
// OfInside what those inside containers do.
const (
	OfHosts  = "containers cannot reach their host; packets that the host itself sends are not filtered"
	OfInside = "the root of a container can send past it, also to the host"
)

// A Checker is a filter that can say, before anything is built, whether it can be enforced on this machine.
type Checker interface {
	// Check reads what the machine has and changes nothing. The error is a [linux.UnsupportedError] with what is missing
	// and what would help.
	Check(p part.Params) error
}
