package passthrough

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/userns"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// nic is the name of the parameter, none its default, and separator stands between several.
const (
	nic       = "nic"
	none      = "none"
	separator = "+"
)

// Network is the network "passthrough".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Metrics:        declared(),
		Name:           "passthrough",
		Summary:        "a network card for every container, moved into its namespace",
		Implementation: "kernel",
		Near:           near,
		Claims:         claims,
		Params: part.List{network.By(network.ByLXC), {
			Name: nic, Default: none, Quiet: true, Check: checkNICs,
			Summary: "none: a port of the underlay's switch for each container; NAME or NAME+NAME: NICs of this machine, one " +
				"per container, returned afterwards",
		}},
	}
}

// claims are those of the switch that the network cards are at.
func claims(int, part.Params) threat.Claims {
	return slices.Concat(network.Passes(), network.Floods("the underlay's switch"))
}

func checkNICs(s string) (string, error) {
	names := strings.Split(s, separator)
	for i, name := range names {
		if name == "" || len(name) > link.MaxName || strings.ContainsAny(name, "/ \t\n:") {
			return "", fmt.Errorf("invalid name %q of a NIC (valid: %s, or one or several such as eth1%seth2)", name, none,
				separator)
		}
		if slices.Contains(names[:i], name) {
			return "", fmt.Errorf("NIC %q is given twice", name)
		}
	}
	return s, nil
}

// nics are the NICs of the machine, nil for none.
func nics(p part.Params) []string {
	if p[nic] == "" || p[nic] == none {
		return nil
	}
	return strings.Split(p[nic], separator)
}

// FilterPoint says that packets can be filtered inside the containers only.
func (Network) FilterPoint(part.Params) (network.Point, string) { return network.InContainer, "" }

// Exclude leaves out NICs of the machine where a runtime would move them: it would not give them back as they were.
func (Network) Exclude(_ int, p part.Params) string {
	if built := network.BuiltBy(p); built != "" && nics(p) != nil {
		return built + " does not take NICs of the machine (leave out by=" + built + " or " + nic + ")"
	}
	return ""
}

// Wired says that each container has a link of its own to the switch, which is moved into it, unless NICs of the
// machine take their place.
func (Network) Wired(p part.Params) (wired, moved bool) { return nics(p) == nil, true }

// Borrows returns the NICs that it takes from the machine.
func (Network) Borrows(p part.Params) []string {
	var list []string
	for _, name := range nics(p) {
		list = append(list, "NIC "+name)
	}
	return list
}

// Check says whether the machine can spare the NICs.
func (Network) Check(p part.Params) error {
	names := nics(p)
	if names == nil {
		return nil
	}
	if userns.Inside() {
		return &linux.UnsupportedError{
			What: fmt.Sprintf("take NIC %q from the machine", names[0]), Missing: "CAP_NET_ADMIN", Hint: "run as root",
		}
	}
	h, err := link.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	for _, name := range names {
		if err := h.Spare(name); err != nil {
			return err
		}
	}
	return nil
}

// Trace says that packets leave and arrive by the containers' own links and, unless those are NICs of the machine, pass
// the switch between them.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	mac := ""
	if nics(t.Lab.Params) == nil {
		mac = network.MAC(t.Lab.Seed, t.To.Host.Name(), network.SwitchPort(t.To.Container))
	}
	w.Leave(t, t.Target(), mac)
	w.Sent(t.From.Host, t.From.Endpoint.Namespace, t.From.Endpoint.Inner, "")
	if nics(t.Lab.Params) == nil {
		w.Plugged(t)
	}
	w.Received(t.To.Host, t.To.Endpoint.Namespace, t.To.Endpoint.Inner, "")
	w.Counters[len(w.Counters)-1].Others = nics(t.Lab.Params) != nil // whoever is at the other end of the cable
	w.NotForwarded(t)
	return w
}

// Build moves a link into every container: its port of the switch, or a NIC of the machine.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.CheckSegment(); err != nil {
		return nil, nil, err
	}
	given := nics(lab.Params)
	all := 0
	for _, h := range lab.Hosts {
		all += len(h.Containers)
	}
	if given != nil && all != len(given) {
		return nil, nil, fmt.Errorf("%d containers but %d NICs (%s=%s): each container needs a NIC of its "+
			"own", all, len(given),
			nic, lab.Params[nic])
	}
	if most := network.MaxPorts - len(lab.Hosts); given == nil && len(lab.Hosts) > 1 && all > most {
		return nil, nil, fmt.Errorf("%d containers, but the switch of the underlay has only %d ports", all, most)
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		steps, names, from := network.Base(lab, h), []string(nil), ""
		if given == nil {
			ports, made, err := network.Plugs(lab, h, true)
			if err != nil {
				return nil, nil, err
			}
			names, steps = ports, append(steps, made...)
		} else {
			names, given, from = given[:len(h.Containers)], given[len(h.Containers):], host.Machine
		}
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j, c := range h.Containers {
			v4, v6 := network.SegmentAddr(h.Index, c.Index)
			inner := network.Inner
			if from != "" { // it comes back with the name that it has there
				inner = names[j]
			}
			ends[i][j] = network.Endpoint{Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Inner: inner}
			steps = append(steps, host.MoveLink{
				// when the other end of a cable can be there
				FromNS: from, From: names[j], NS: c.Name, Name: inner, MTU: lab.MTU, Addresses: []string{v4.String(), v6.String()},
				Timed: j == len(h.Containers)-1,
			})
			steps = append(steps, network.Inside(c)...)
		}
		if from == "" {
			steps = append(steps, network.PeerNeighbours(lab, h, ends[i], func(c network.Container) string {
				return network.MAC(lab.Seed, h.Name(), names[c.Index])
			})...)
		}
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"phys", "sriov", "sr-iov", "nic"},
			Why:   "it moves a network card into the container",
		},
	}
}
