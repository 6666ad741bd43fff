package ovs

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/ovs"
	"github.com/nettoll/nettoll/network"
)

// Names of counters.
const looked = "packets that the datapath of the switch has processed"

// taken is the name of the counter of what the switch alone has received from a port.
func taken(port string) string { return "packets that only the switch received from port " + port }

// Count returns how many packets the datapath has looked at, and how many each port has received that the host's own
// stack did not get: those which [Switch.deaf] has dropped behind the daemon's packet sockets or, with the kernel's
// datapath, all of a port that belongs to it.
func (s Switch) Count(k *host.Kernel) (map[string]uint64, error) {
	dir, err := k.RunDir(ovs.RunDir)
	if err != nil {
		return nil, err
	}
	passages, err := (ovs.Instance{Dir: dir}).Passages()
	if err != nil {
		return nil, err
	}
	counts := map[string]uint64{looked: passages}
	of, err := s.datapath(k)
	if err != nil {
		return nil, err
	}
	if of == ovs.Userspace {
		return counts, k.Do("", func() error {
			rules, err := ruleset.Read(netdev, table, "")
			for _, r := range rules {
				counts[taken(r.Chain)] += r.Packets
			}
			return err
		})
	}
	h, err := k.Links("")
	if err != nil {
		return nil, err
	}
	links, err := h.Traffic()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.Master == kernelDatapath {
			counts[taken(l.Name)] = l.Received
		}
	}
	return counts, nil
}

// Trace says that packets pass the switch and, across hosts, its own link and the network stack of each host.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	mac := func(s network.Stop, link ...string) string {
		return network.MAC(t.Lab.Seed, append([]string{s.Host.Name()}, link...)...)
	}
	if t.Same() {
		w.Leave(t, t.Target(), mac(t.To, t.To.Container.Name, network.Inner))
	} else {
		w.Leave(t, t.Pick(network.Gateway(t.From.Host.Index)), mac(t.From, network.Bridge))
	}
	w.Counted(t.From.Host, taken(t.From.Endpoint.Link))
	w.Counted(t.From.Host, looked)
	if t.Same() {
		w.NotForwarded(t)
	} else {
		w.Received(t.From.Host, "", network.Bridge, "")
		w.Forwarded(t)
		w.Carried(t)
		w.Sent(t.To.Host, "", network.Bridge, "")
		w.Counted(t.To.Host, looked)
		w.Arrive(t, network.Bridge, mac(t.To, t.To.Container.Name, network.Inner))
	}
	w.Sent(t.To.Host, "", t.To.Endpoint.Link, "")
	return w
}
