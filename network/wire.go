package network

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
)

// Evidence compares what a tap on the underlay has heard with what the spans of a lab say of it.
type Evidence struct {
	lab Lab
	// ports are those of the underlay's switch that packets come in by.
	ports []string
}

// NewEvidence is that of a lab whose packets come in by ports of the underlay's switch, see [Way.Ports]. It is nil if
// there are none: then nothing passes the underlay.
func NewEvidence(lab Lab, ports []string) *Evidence {
	if len(ports) == 0 {
		return nil
	}
	return &Evidence{lab, slices.Compact(slices.Sorted(slices.Values(ports)))}
}

// Tap is what the underlay is to listen to, and whether it keeps the frames.
func (e *Evidence) Tap(mark []byte, keep bool) *host.Tap {
	return &host.Tap{Links: e.ports, Mark: mark, Keep: keep}
}

// protected says whether a span hides what containers send.
func (e *Evidence) protected() bool { return e.lab.Hidden() }

// wire are the protocols that may carry packets of containers on the underlay; nil: they pass it as they are.
func (e *Evidence) wire() []Protocol {
	if all := e.lab.spans(); len(all) > 1 {
		return all[1].Wire
	}
	return nil
}

// beside says whether packets on the underlay are of a protocol that hosts talk besides.
func (e *Evidence) beside(w host.Wire) bool {
	all := e.lab.spans()
	return len(all) > 1 && slices.ContainsFunc(all[1].Besides, func(p Protocol) bool { return p.is(w) })
}

// Text says it as a sentence without its full stop.
func (e *Evidence) Text() string {
	text := "packets between hosts are those of containers"
	if list := e.wire(); list != nil {
		names := make([]string, len(list))
		for i, p := range list {
			names[i] = p.String()
		}
		text = "packets between hosts are " + strings.Join(names, " and ")
		if cipher := e.lab.spans()[1].Cipher; cipher != "" {
			text += ", by " + cipher
		}
		text += fmt.Sprintf(", %d bytes longer at full size", e.length()-ethernetHeader-e.lab.MTU)
	}
	if e.protected() {
		return text
	}
	return text + ", and what containers send can be read in them"
}

// Layers says what each span leaves of the MTU, see [Lab.Layers].
func (e *Evidence) Layers() string { return e.lab.Layers() }

// Hidden says that nothing can be read, as a sentence without its full stop; "" if no span hides it.
func (e *Evidence) Hidden() string {
	if !e.protected() {
		return ""
	}
	return "nothing that containers send can be read between hosts"
}

// length is that of the longest frame on the underlay that carries a packet of full size, in bytes.
func (e *Evidence) length() int {
	n := e.lab.MTU
	for _, s := range slices.Backward(e.lab.spans()) {
		n = s.Overhead.On(n, s.MTU)
	}
	return ethernetHeader + n
}

const ethernetHeader = 14 // bytes (IEEE 802.3)

// merged says whether a span joins packets, so that the tap sees several as one.
func (e *Evidence) merged() bool {
	return slices.ContainsFunc(e.lab.spans(), func(s Span) bool { return s.Merged > 0 })
}

// TCP is the number of the protocol (IANA, Protocol Numbers).
const TCP = 6

// UDP is the number of the protocol (IANA, Protocol Numbers); the others are those of hosts themselves.
const (
	UDP                = 17
	icmp, igmp, icmpv6 = 1, 2, 58
)

// Heard says what differs of frames that the underlay has received, while packets of full size that held the mark went
// through every pair, and came back; and what can be read in them, if nothing can.
func (e *Evidence) Heard(frames []host.Frames) (wrong, leak error) {
	var differ, read []error
	for _, port := range e.ports {
		if err := e.sent(port, frames); err != nil {
			differ = append(differ, fmt.Errorf("on the underlay, from %s: %w", port, err))
		}
	}
	for _, f := range frames {
		if e.protected() && f.Marked > 0 {
			read = append(read, fmt.Errorf("on the underlay, from %s: it leaks: what a container sent can be read in %d of %d "+
				"frames (%s)", f.Link, f.Marked, f.Count, f.Wire))
		}
	}
	return errors.Join(differ...), errors.Join(read...)
}

func (e *Evidence) sent(port string, frames []host.Frames) error {
	wire, protected := e.wire(), e.protected()
	carried, marked, longest := 0, 0, 0
	for _, f := range frames {
		if f.Link != port {
			continue
		}
		if f.Marked == 0 && e.beside(f.Wire) {
			continue
		}
		own := f.Family == "" || f.Protocol == icmp || f.Protocol == igmp || f.Protocol == icmpv6
		switch {
		case wire == nil && !own, slices.ContainsFunc(wire, func(p Protocol) bool {
			return f.Family == e.lab.spans()[1].Outer && p.is(f.Wire)
		}):
			carried, marked, longest = carried+f.Count, marked+f.Marked, max(longest, f.Longest)
		case wire != nil && (!own || f.Marked > 0):
			return fmt.Errorf("%d frames go around %s (%s)", f.Count, e.lab.spans()[1].Name, f.Wire)
		}
	}
	want := e.length()
	switch {
	case carried == 0:
		return errors.New("no packet passes")
	case !protected && marked == 0:
		return fmt.Errorf("what containers send is in none of %d frames: the tap does not see what it should", carried)
	case longest < want || longest > want && !e.merged():
		return fmt.Errorf("the longest frame has %d bytes, but a packet of %d bytes makes one of %d (%s)", longest, e.lab.MTU,
			want, e.lab.Layers())
	}
	return nil
}
