package host

import (
	"context"
	"fmt"
	"maps"
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// A Counter names something on a host that counts packets. Plans and hosts use the same text.
type Counter struct {
	// NS is the namespace of a counting link. Counters of steps have no namespace ("").
	NS string `json:"ns,omitempty"`
	// Name describes what is counted, as the beginning of a sentence: "packets received by vsrc0, port of br0".
	Name string `json:"name"`
}

// String describes the counter in plain words.
func (c Counter) String() string { return c.Name + in(c.NS) }

// Received returns the counter of packets that a link has received. Master is the bridge of which the link is a port,
// "" for none: a link with another master is another counter.
func Received(ns, name, master string) Counter { return carried("received", ns, name, master) }

// Sent returns the counter of packets that a link has sent, like [Received].
func Sent(ns, name, master string) Counter { return carried("sent", ns, name, master) }

func carried(how, ns, name, master string) Counter {
	text := "packets " + how + " by " + name
	if master != "" {
		text += ", port of " + master
	}
	return Counter{ns, text}
}

// Forwarded returns the counter of packets of a family ("ipv4" or "ipv6") that the network stack of the host has
// forwarded from one link to another.
func Forwarded(family string) Counter {
	return Counter{Name: "packets of " + family + " forwarded by the host's network stack"}
}

// A Counting is a step that counts packets itself: those of a switch, a tunnel or a program.
type Counting interface {
	Step
	// Count returns the numbers of packets counted so far, by the names of the counters.
	Count(k *Kernel) (map[string]uint64, error)
}

// A Question is the question of a [Trace].
type Question struct {
	// Hops are packets that leave a namespace.
	Hops []Hop `json:"hops,omitempty"`
	// Links are the namespaces whose links are counted, in addition to the host's own.
	Links []string `json:"links,omitempty"`
	// Tap begins to capture. The answer has the frames of the tap that was active before, which ends.
	Tap *Tap `json:"tap,omitempty"`
}

// A Hop describes packets that leave a namespace.
type Hop struct {
	NS string `json:"ns,omitempty"`
	// From is their source; the zero value means any. To is their destination.
	From netip.Addr `json:"from,omitzero"`
	To   netip.Addr `json:"to"`
}

// A Next is the next hop of packets of a [Hop].
type Next struct {
	// Link is the outgoing link, and Via the neighbour that receives them: a gateway, or the destination itself.
	Link string     `json:"link"`
	Via  netip.Addr `json:"via"`
	// MAC is the neighbour's address in the neighbour table; "" if there is none.
	MAC string `json:"mac,omitempty"`
	// Error is why the kernel would not send them.
	Error string `json:"error,omitempty"`
}

// String describes the next hop.
func (n Next) String() string {
	if n.Error != "" {
		return fmt.Sprintf("nowhere (%s)", n.Error)
	}
	s := fmt.Sprintf("%s through %s", n.Via, n.Link)
	if n.MAC != "" {
		s += " at " + n.MAC
	}
	return s
}

// A Trace describes the path of packets on a host.
type Trace struct {
	// Next holds the answers to the hops, in order.
	Next []Next `json:"next,omitempty"`
	// Counts holds the values of all counters of the host, by namespace and name.
	Counts map[string]map[string]uint64 `json:"counts"`
	// Frames are what the tap that was active until now has captured.
	Frames []Frames `json:"frames,omitempty"`
	// Capture holds those frames, if the tap kept them.
	Capture *Capture `json:"capture,omitempty"`
}

// Count returns the value of a counter. ok is false if the host does not have the counter.
func (t Trace) Count(c Counter) (packets uint64, ok bool) {
	packets, ok = t.Counts[c.NS][c.Name]
	return packets, ok
}

// Trace asks the kernel for next hops, and reads the counters of links, of the host's network stack and of all steps
// that count.
func (s *Stack) Trace(ctx context.Context, k *Kernel, q Question) (Trace, error) {
	t := Trace{Counts: map[string]map[string]uint64{}}
	var err error
	if t.Frames, t.Capture, err = k.retap(q.Tap); err != nil {
		return Trace{}, err
	}
	for _, hop := range q.Hops {
		if err := ctx.Err(); err != nil {
			return Trace{}, fmt.Errorf("trace packets: %w", err)
		}
		h, err := k.Links(hop.NS)
		if err != nil {
			return Trace{}, fmt.Errorf("trace packets to %s: %w", hop.To, err)
		}
		n, err := h.Next(hop.From, hop.To)
		if err != nil {
			t.Next = append(t.Next, Next{Error: err.Error()})
			continue
		}
		t.Next = append(t.Next, Next{Link: n.Link, Via: n.Via, MAC: n.MAC.String()})
	}
	for _, ns := range append([]string{""}, q.Links...) {
		h, err := k.Links(ns)
		if err != nil {
			return Trace{}, fmt.Errorf("count packets: %w", err)
		}
		links, err := h.Traffic()
		if err != nil {
			return Trace{}, fmt.Errorf("count packets%s: %w", in(ns), err)
		}
		t.Counts[ns] = ofLinks(ns, links)
	}
	own := t.Counts[""]
	if err := k.Do("", func() (err error) {
		own[Forwarded("ipv4").Name], own[Forwarded("ipv6").Name], err = procfs.Forwarded()
		return err
	}); err != nil {
		return Trace{}, err
	}
	for _, a := range s.applied {
		c, ok := a.Step.(Counting)
		if !ok {
			continue
		}
		counts, err := c.Count(k.view(a))
		if err != nil {
			return Trace{}, fmt.Errorf("count packets of step %d (%s): %w", a.Number, a.Step, err)
		}
		maps.Copy(own, counts)
	}
	return t, nil
}

func ofLinks(ns string, links []link.Traffic) map[string]uint64 {
	counts := make(map[string]uint64, 2*len(links))
	for _, l := range links {
		if l.MasterType == switched {
			l.Master = ""
		}
		counts[Received(ns, l.Name, l.Master).Name], counts[Sent(ns, l.Name, l.Master).Name] = l.Received, l.Sent
	}
	return counts
}
