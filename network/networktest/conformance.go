package networktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// Conformance runs the suite on a network, once with each of the parameters given, or with their defaults if none are.
// Labs that the network excludes are not built. The part that is described and built is tested anywhere; the rest
// applies its plans in private namespaces and sends real packets, and is skipped where that is not possible. The
// package's TestMain calls [testnet.Main].
func Conformance(t *testing.T, n network.Network, variants ...map[string]string) {
	if len(variants) == 0 {
		variants = []map[string]string{nil}
	}
	d := n.Describe()
	seen := map[string]bool{}
	for _, given := range variants {
		params, err := d.Params.Resolve("network "+d.Name, given)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(d.Params.Short(d.Name, params), func(t *testing.T) {
			for _, c := range checks(seen) {
				if c.hosts > 0 && excluded(variant{n, params, nil}, c.hosts) != "" {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel() // with those of the same variant: each has namespaces of its own, and most of it is waiting
					if err := c.run(t, variant{n, params, nil}); errors.Is(err, errors.ErrUnsupported) {
						testnet.Skip(t, err)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// Check runs the checks of the suite that have these names on a network with the parameters given: for a guest, which
// is slow and has only one thing to show.
func Check(t *testing.T, n network.Network, given map[string]string, names ...string) {
	d := n.Describe()
	params, err := d.Params.Resolve("network "+d.Name, given)
	if err != nil {
		t.Fatal(err)
	}
	run(t, variant{n, params, nil}, names)
}

// CheckCarried runs the checks of the suite that have these names on a network with its default parameters. Parts of a
// stack carry its packets between hosts. The check "way, 2 hosts" is "path, 2 hosts" without the ways around the
// network.
func CheckCarried(t *testing.T, n network.Network, between stack.Stack, names ...string) {
	d := n.Describe()
	params, err := d.Params.Resolve("network "+d.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	run(t, variant{n, params, between}, names)
}

// run runs the checks that have these names.
func run(t *testing.T, v variant, names []string) {
	way := check{name: "way, 2 hosts", hosts: 2, run: func(t testing.TB, n network.Network) error {
		return path(t, n, nil, possible(n, Lab(2, 2))...)
	}}
	for _, c := range append(checks(map[string]bool{}), way) {
		if !slices.Contains(names, c.name) {
			continue
		}
		t.Run(v.Describe().Params.Short(v.Describe().Name, v.params)+"/"+c.name, func(t *testing.T) {
			if err := c.run(t, v); errors.Is(err, errors.ErrUnsupported) {
				testnet.Skip(t, err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// variant is a network with parameters that are given to every lab, and with what carries its packets between hosts.
type variant struct {
	network.Network
	params  part.Params
	between stack.Stack
}

func (v variant) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	lab.Params = maps.Clone(v.params)
	return v.Network.Build(lab)
}

// Serves asks the network about its own parameters.
func (v variant) Serves(lab network.Lab, h network.Host) []netip.Prefix {
	lab.Params = v.params
	return network.Serves(v.Network, lab, h)
}

// Trace asks the network about its own parameters.
func (v variant) Trace(t network.Trip) network.Way {
	t.Lab.Params = v.params
	return v.Network.(network.Tracer).Trace(t) //nolint:forcetypeassert // so is each that was built, see description
}

// Crosses and Cross ask the network about its own parameters.
func (v variant) Crosses(part.Params) bool {
	c, ok := v.Network.(network.Crosser)
	return ok && c.Crosses(v.params)
}

// Cross is asked only if it crosses.
func (v variant) Cross(lab network.Lab) (s network.Span, ok bool, err error) {
	lab.Params = v.params
	return v.Network.(network.Crosser).Cross(lab) //nolint:forcetypeassert // it is one
}

// IPv4Only asks the network about its own parameters.
func (v variant) IPv4Only(part.Params) string {
	if o, ok := v.Network.(network.IPv4Only); ok {
		return o.IPv4Only(v.params)
	}
	return ""
}

// Alone asks the network about its own parameters.
func (v variant) Alone(part.Params) bool {
	c, ok := v.Network.(network.Crosser)
	return ok && c.Alone(v.params)
}

// crosses says whether a network takes packets of its containers to other hosts itself.
func crosses(n network.Network) bool {
	c, ok := n.(network.Crosser)
	return ok && c.Crosses(nil)
}

// familiesOf are those of which containers of the network have addresses.
func familiesOf(n network.Network) []string {
	if o, ok := n.(network.IPv4Only); ok && o.IPv4Only(nil) != "" {
		return families()[:1]
	}
	return families()
}

// Exclude asks the network about its own parameters.
func (v variant) Exclude(hosts int, _ part.Params) string {
	if e, ok := v.Network.(network.Excluder); ok {
		return e.Exclude(hosts, v.params)
	}
	return ""
}

// excluded is the reason why a lab of so many hosts is not built, "" where it is.
func excluded(n network.Network, hosts int) string {
	if e, ok := n.(network.Excluder); ok {
		return e.Exclude(hosts, nil)
	}
	return ""
}

// check is one check of the suite. It returns what is wrong, so that the suite itself can be tested.
type check struct {
	name  string
	run   func(testing.TB, network.Network) error
	hosts int // of its labs, 0 where it has several: a network that excludes those has nothing to show
}

// checks lists them. seen is what was tampered with before.
func checks(seen map[string]bool) []check {
	list := []check{
		{name: "description", run: description},
		{name: "exclusions", run: exclusions},
		{name: "pure", run: pure},
		{name: "shape", run: shape},
		{name: "wrong labs", run: wrongLabs},
		{name: "round trip", run: roundTrip},
		{name: "MAC addresses", run: macs},
	}
	for _, hosts := range []int{1, 2} {
		for _, pairs := range []int{1, 3} {
			list = append(list, check{
				name: fmt.Sprintf("packets, %d hosts, %d pairs", hosts, pairs), hosts: hosts,
				run: func(t testing.TB, n network.Network) error {
					return packets(t, n, possible(n, Lab(hosts, pairs))...)
				},
			})
		}
		list = append(list, check{
			name: fmt.Sprintf("path, %d hosts", hosts), hosts: hosts,
			run: func(t testing.TB, n network.Network) error {
				return path(t, n, detours(), possible(n, Lab(hosts, 2))...)
			},
		})
		list = append(list, check{
			name: fmt.Sprintf("undo, %d hosts", hosts), hosts: hosts,
			run: func(t testing.TB, n network.Network) error {
				return undo(t, n, possible(n, Lab(hosts, 2))...)
			},
		})
		data := func(t testing.TB, n network.Network) error { return fromData(t, n, possible(n, Lab(hosts, 1))...) }
		list = append(list, check{name: fmt.Sprintf("undo from data, %d hosts", hosts), hosts: hosts, run: data})
	}
	return append(list, check{name: "tampering", run: func(t testing.TB, n network.Network) error {
		return tampering(t, n, seen, possible(n, Lab(1, 1), Lab(2, 1))...)
	}})
}

// mtu of the suite's labs: not the default of any link, so that one which is left at it is found.
const mtu = 1440

// Ports of the containers of a host.
const (
	firstPort = 20000
	portsEach = 10
)

// Lab returns a lab of one or more hosts and pairs of containers. Source i is on host 1 + i mod hosts, sink i on the
// next.
func Lab(hosts, pairs int) network.Lab {
	lab := bare(hosts)
	for i := range pairs {
		add(&lab.Hosts[i%hosts], fmt.Sprintf("src%d", i))
		add(&lab.Hosts[(i+1)%hosts], fmt.Sprintf("snk%d", i))
		if hosts == 1 {
			both := lab.Hosts[0].Containers[2*i:]
			both[0].Peer, both[1].Peer = both[1].Name, both[0].Name
		}
	}
	return lab
}

// Mesh returns a lab of hosts with a pair between every two of them: the source is on the one with the lower number.
func Mesh(hosts int) network.Lab {
	lab, pairs := bare(hosts), 0
	for i := range hosts {
		for j := i + 1; j < hosts; j++ {
			add(&lab.Hosts[i], fmt.Sprintf("src%d", pairs))
			add(&lab.Hosts[j], fmt.Sprintf("snk%d", pairs))
			pairs++
		}
	}
	return lab
}

// bare is a lab without containers.
func bare(hosts int) network.Lab {
	lab := network.Lab{MTU: mtu, Seed: 1}
	for i := range hosts {
		h := network.Host{Index: i + 1}
		if hosts > 1 {
			h.Uplink = "up0"
			h.UnderlayAddr, _ = network.UnderlayAddr(h.Index)
		}
		lab.Hosts = append(lab.Hosts, h)
	}
	return lab
}

// add puts a container on a host.
func add(h *network.Host, name string) {
	i := len(h.Containers)
	first := uint16(firstPort + i*portsEach)
	h.Containers = append(h.Containers, network.Container{
		Name: name, Index: i, Ports: network.Ports{First: first, Last: first + portsEach - 1},
	})
}

// labs are those that what is pure is tried on.
func labs(n network.Network) []network.Lab {
	large := Lab(2, 100)
	large.MTU = network.MaxMTU
	return possible(n, Lab(1, 0), Lab(1, 1), Lab(1, 3), Lab(2, 0), Lab(2, 1), Lab(2, 3), Lab(5, 5), large)
}

// possible are those of the labs that the network does not exclude, with what carries its packets between hosts.
func possible(n network.Network, labs ...network.Lab) []network.Lab {
	var list []network.Lab
	for _, l := range labs {
		if excluded(n, len(l.Hosts)) != "" {
			continue
		}
		if v, ok := n.(variant); ok {
			composed, err := network.Compose(l, v.between)
			if err == nil {
				composed, err = network.Cross(v, composed)
			}
			if err != nil {
				panic(fmt.Sprintf("networktest: %v", err)) // the carrier is wrong, and nothing can be shown of it
			}
			l = composed
		}
		list = append(list, l)
	}
	return list
}

func description(_ testing.TB, n network.Network) error {
	d := n.Describe()
	if d.Name == "" || strings.ToLower(d.Name) != d.Name {
		return fmt.Errorf("the name is %q, want a word of small letters", d.Name)
	}
	if d.Summary == "" || strings.HasSuffix(d.Summary, ".") {
		return fmt.Errorf("the summary is %q, want a sentence without its full stop", d.Summary)
	}
	if v, ok := n.(variant); ok {
		n = v.Network
	}
	if _, ok := n.(network.Tracer); !ok {
		return errors.New("it does not say which way its packets take (network.Tracer)")
	}
	known := []string{"kernel", "ebpf", "ovs", "userspace"}
	if !slices.Contains(known, d.Implementation) {
		return fmt.Errorf("the implementation is %q (known: %s)", d.Implementation, strings.Join(known, ", "))
	}
	// functions cannot be compared
	if diff := cmp.Diff(d, n.Describe(), cmpopts.IgnoreFields(part.Param{}, "Check", "Why"),
		cmpopts.IgnoreFields(network.Description{}, "Near", "Claims")); diff != "" {
		return fmt.Errorf("it describes itself in two ways:\n%s", diff)
	}
	return nil
}

// exclusions wants a sentence where a lab is left out, always the same, and some labs that are not.
func exclusions(_ testing.TB, n network.Network) error {
	left := 0
	for hosts := 1; hosts <= 5; hosts++ {
		reason := excluded(n, hosts)
		if reason == "" {
			left++
			continue
		}
		if !strings.Contains(reason, " ") || strings.HasSuffix(reason, ".") || strings.ContainsAny(reason, "\n\t") {
			return fmt.Errorf("labs of %d hosts are left out because %q, want a sentence without its full stop", hosts, reason)
		}
		if again := excluded(n, hosts); again != reason {
			return fmt.Errorf("labs of %d hosts are left out because %q, and then because %q", hosts, reason, again)
		}
	}
	if left == 0 {
		return errors.New("labs of every number of hosts are left out")
	}
	return nil
}

// built is what a network returns, so that it can be compared.
type built struct {
	Plans []host.Plan
	Ends  [][]network.Endpoint
}

func build(n network.Network, lab network.Lab) (built, error) {
	plans, ends, err := network.Join(n, lab)
	if err != nil {
		return built{}, fmt.Errorf("build a lab of %d hosts: %w", len(lab.Hosts), err)
	}
	return built{plans, ends}, nil
}

// equate lets cmp compare addresses.
func equate() cmp.Option { return cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}) }

// copyOf copies a lab in depth.
func copyOf(lab network.Lab) network.Lab {
	lab.Hosts = slices.Clone(lab.Hosts)
	for i := range lab.Hosts {
		lab.Hosts[i].Containers = slices.Clone(lab.Hosts[i].Containers)
	}
	return lab
}

func pure(_ testing.TB, n network.Network) error {
	var first []built
	for _, lab := range labs(n) {
		given := copyOf(lab)
		b, err := build(n, lab)
		if err != nil {
			return err
		}
		if fmt.Sprint(given) != fmt.Sprint(lab) {
			return fmt.Errorf("Build changed its lab from %v to %v", given, lab)
		}
		first = append(first, b)
	}
	for i, lab := range labs(n) {
		b, err := build(n, lab)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(first[i], b, equate()); diff != "" {
			return fmt.Errorf("the same lab, built twice (-first +second):\n%s", diff)
		}
	}
	return nil
}

// shape wants a plan for each host and, for each container, an endpoint that no other has unless both share their
// host's namespace. Containers of one host, and only those, may share a public address, as their ports differ.
func shape(_ testing.TB, n network.Network) error {
	for _, lab := range labs(n) {
		b, err := build(n, lab)
		if err != nil {
			return err
		}
		if len(b.Plans) != len(lab.Hosts) || len(b.Ends) != len(lab.Hosts) {
			return fmt.Errorf("%d plans and %d lists of endpoints for %d hosts", len(b.Plans), len(b.Ends), len(lab.Hosts))
		}
		owner := map[string]string{}
		public := map[string]int{} // host of the address
		for i, h := range lab.Hosts {
			if len(b.Ends[i]) != len(h.Containers) {
				return fmt.Errorf("host %d: %d endpoints for %d containers", h.Index, len(b.Ends[i]), len(h.Containers))
			}
			for j, e := range b.Ends[i] {
				c := h.Containers[j]
				if e.Namespace != "" && e.Namespace != c.Name {
					return fmt.Errorf("host %d: the namespace of %s is %q, want its own or the host's (%q)", h.Index, c.Name,
						e.Namespace, "")
				}
				only := len(familiesOf(n)) == 1 && !e.IPv6.IsValid()
				if !e.IPv4.Is4() || !only && (!e.IPv6.Is6() || e.IPv6.Is4In6()) {
					return fmt.Errorf("host %d: the addresses of %s are %q and %q, want one of IPv4 and one of IPv6", h.Index, c.Name,
						e.IPv4, e.IPv6)
				}
				place := fmt.Sprintf("host %d, namespace %q", h.Index, e.Namespace)
				for _, family := range familiesOf(n) {
					a := e.Bind(family).String()
					if other, ok := owner[a]; ok && other != place {
						return fmt.Errorf("address %s is that of %s and of %s", a, other, place)
					}
					owner[a] = place
				}
				if !e.PublicIPv4.IsValid() && !e.PublicIPv6.IsValid() {
					continue
				}
				if !e.PublicIPv4.Is4() || !e.PublicIPv6.Is6() || e.PublicIPv6.Is4In6() {
					return fmt.Errorf("host %d: the public addresses of %s are %q and %q, want one of IPv4 and one of IPv6, or none",
						h.Index, c.Name, e.PublicIPv4, e.PublicIPv6)
				}
				for _, a := range []string{e.PublicIPv4.String(), e.PublicIPv6.String()} {
					if other, ok := public[a]; ok && other != h.Index {
						return fmt.Errorf("the public address %s is that of host %d and of host %d", a, other, h.Index)
					}
					public[a] = h.Index
				}
			}
			if text := b.Plans[i].String(); len(b.Plans[i].Steps) > 0 && strings.Count(text, "\n") != len(b.Plans[i].Steps) {
				return fmt.Errorf("host %d: the plan does not print a line for each of its %d steps:\n%s", h.Index,
					len(b.Plans[i].Steps), text)
			}
		}
		if err := served(n, lab, b.Ends); err != nil {
			return err
		}
		for a := range public {
			if place, ok := owner[a]; ok {
				return fmt.Errorf("the public address %s is that of a container (%s)", a, place)
			}
		}
	}
	return nil
}

// served wants each host to serve the addresses at which its containers are reached, and no other host to; or
// those addresses to be on the underlay, or on a segment that the network carries between hosts itself.
func served(n network.Network, lab network.Lab, ends [][]network.Endpoint) error {
	if len(lab.Hosts) < 2 {
		return nil
	}
	for i, h := range lab.Hosts {
		own := network.Serves(n, lab, h)
		segment4, segment6 := h.Underlay()
		segment := []netip.Prefix{segment4.Masked(), segment6.Masked()}
		for j, e := range ends[i] {
			for _, family := range familiesOf(n) {
				a := e.Public(family)
				at := fmt.Sprintf("host %d: %s is reached at %s, and", h.Index, h.Containers[j].Name, a)
				switch {
				case len(own) == 0 && !within(a, segment) && !crosses(n):
					return fmt.Errorf("%s that is not on the underlay (%s)", at, listed(segment))
				case len(own) > 0 && !within(a, own):
					return fmt.Errorf("%s the host serves %s", at, listed(own))
				}
				for _, other := range lab.Hosts {
					if theirs := network.Serves(n, lab, other); other.Index != h.Index && within(a, theirs) {
						return fmt.Errorf("%s host %d serves %s as well", at, other.Index, theirs[0])
					}
				}
			}
		}
	}
	return nil
}

func within(a netip.Addr, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

func listed(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

func wrongLabs(_ testing.TB, n network.Network) error {
	for what, change := range map[string]func(*network.Lab){
		"no hosts":         func(l *network.Lab) { l.Hosts = nil },
		"MTU too small":    func(l *network.Lab) { l.MTU = network.MinMTU - 1 },
		"MTU too large":    func(l *network.Lab) { l.MTU = network.MaxMTU + 1 },
		"host 0":           func(l *network.Lab) { l.Hosts[0].Index = 0 },
		"no uplink":        func(l *network.Lab) { l.Hosts[1].Uplink = "" },
		"name twice":       func(l *network.Lab) { l.Hosts[0].Containers[1].Name = l.Hosts[0].Containers[0].Name },
		"index of another": func(l *network.Lab) { l.Hosts[0].Containers[1].Index = 0 },
	} {
		lab := Lab(2, 2)
		change(&lab)
		if _, _, err := n.Build(lab); err == nil {
			return fmt.Errorf("a lab with %s is built, want an error", what)
		}
	}
	return nil
}

// kinds are the kinds of steps that plans of the network may have.
func kinds(n network.Network) map[string]func() host.Step {
	list := host.Steps()
	if v, ok := n.(variant); ok {
		for _, c := range v.between {
			maps.Copy(list, network.CarrierSteps([]stack.Part{c.Part}))
		}
		n = v.Network
	}
	if own, ok := n.(host.Stepper); ok {
		maps.Copy(list, own.Steps())
	}
	return list
}

func roundTrip(_ testing.TB, n network.Network) error {
	d := host.Decoder{Kinds: kinds(n)}
	for _, lab := range labs(n) {
		b, err := build(n, lab)
		if err != nil {
			return err
		}
		for _, want := range append(b.Plans, network.Underlay(n, lab)) {
			data, err := json.Marshal(want)
			if err != nil {
				return err
			}
			got, err := d.Decode(data)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				return fmt.Errorf("plan after a round trip through JSON (-want +got):\n%s", diff)
			}
		}
	}
	return nil
}

// macs wants addresses that are locally administered, unicast, used once, and others under another seed.
func macs(_ testing.TB, n network.Network) error {
	used := map[string]uint64{}
	for _, seed := range []uint64{1, 2, 1 << 60} {
		one, two := Lab(1, 3), Lab(2, 3)
		one.Seed, two.Seed = seed, seed
		for _, lab := range possible(n, one, two) {
			b, err := build(n, lab)
			if err != nil {
				return err
			}
			plans := b.Plans
			if len(lab.Hosts) > 1 {
				plans = append(plans, network.Underlay(n, lab))
			}
			inLab := map[string]bool{}
			for _, text := range macsOf(plans) {
				mac, err := net.ParseMAC(text)
				if err != nil {
					return err
				}
				// IEEE 802-2014 section 8.2.2: the lowest bit says multicast, the next locally administered.
				if mac[0]&3 != 2 {
					return fmt.Errorf("MAC address %s is not locally administered and unicast", text)
				}
				if inLab[text] {
					return fmt.Errorf("MAC address %s is used twice in a lab", text)
				}
				inLab[text] = true
				if other, ok := used[text]; ok && other != seed {
					return fmt.Errorf("MAC address %s is used under seed %d and seed %d", text, other, seed)
				}
				used[text] = seed
			}
		}
	}
	return nil
}

// macsOf lists the MAC addresses of plans: the fields "mac" and "…_mac" of the steps.
func macsOf(plans []host.Plan) []string {
	var list []string
	for _, p := range plans {
		for _, s := range p.Steps {
			data, err := json.Marshal(s)
			if err != nil {
				continue // "round trip" says so
			}
			var fields map[string]any
			if json.Unmarshal(data, &fields) != nil {
				continue
			}
			for name, value := range fields {
				if text, ok := value.(string); ok && (name == "mac" || strings.HasSuffix(name, "_mac")) {
					list = append(list, text)
				}
			}
		}
	}
	return list
}
