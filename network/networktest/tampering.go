package networktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
)

// tamper is a change behind the back of a plan.
type tamper struct {
	text string
	on   *Machine
	do   func() error
}

// tampering changes the kernel behind the back of the plans, one thing after another on fresh labs, and wants Verify to
// name it and Undo to succeed all the same. What was tried in one lab, or by other parameters of the network, is not
// tried in the next. Steps that the network has without what carries its packets are left to its own suite.
func tampering(t testing.TB, n network.Network, seen map[string]bool, labs ...network.Lab) error {
	for _, lab := range labs {
		b, err := MakeBed(t, n, lab)
		if err != nil {
			return err
		}
		alone, err := uncarried(n, b)
		if err != nil {
			return err
		}
		tampers, err := b.tampers(kinds(n), seen, alone)
		if err != nil {
			return err
		}
		for _, c := range tampers {
			if err := b.tamper(t, c); err != nil {
				return err
			}
		}
	}
	if len(seen) == 0 {
		return errors.New("its plans have no step that could be tampered with")
	}
	return nil
}

// uncarried returns the steps, as text, that a network has in the lab of a bed without the carriers that stand between
// its hosts: at the MTU of the underlay and at that of the containers. It returns none if there are no carriers.
func uncarried(n network.Network, b *Bed) (map[string]bool, error) {
	steps := map[string]bool{}
	v, ok := n.(variant)
	if !ok || len(v.between) == 0 {
		return steps, nil
	}
	v.between = nil
	for _, m := range []int{mtu, b.Lab.MTU} {
		lab := Lab(len(b.Lab.Hosts), b.pairs())
		lab.MTU = m
		built, err := build(v, lab)
		if err != nil {
			return nil, err
		}
		for _, p := range append(built.Plans, network.Underlay(v, lab)) {
			for _, s := range p.Steps {
				text, err := stepText(s)
				if err != nil {
					return nil, err
				}
				steps[text] = true
			}
		}
	}
	return steps, nil
}

// stepText returns a step with all of its settings, for comparison.
func stepText(s host.Step) (string, error) {
	text, err := json.Marshal(host.Plan{Steps: []host.Step{s}})
	return string(text), err
}

func (b *Bed) tamper(t testing.TB, c tamper) (err error) {
	defer func() {
		if uerr := b.Undo(); uerr != nil {
			err = errors.Join(err, fmt.Errorf("undo after tampering (%s): %w", c.text, uerr))
		}
	}()
	if err := b.Apply(t); err != nil {
		return err
	}
	if err := b.Verify(t); err != nil {
		return fmt.Errorf("after all plans were applied: %w", err)
	}
	if err := c.do(); err != nil {
		return fmt.Errorf("tamper (%s): %w", c.text, err)
	}
	err = c.on.Stack.Verify(t.Context(), c.on.Kernel)
	if err == nil {
		return fmt.Errorf("Verify does not see that someone tampered (%s)", c.text)
	}
	if _, ok := errors.AsType[*host.DriftError](err); !ok {
		return fmt.Errorf("Verify after tampering (%s) says %w, want a host.DriftError", c.text, err)
	}
	return nil
}

// tampers lists what can be tampered with in the plans of a lab, each kind of change to each kind of thing once, and
// less what was seen before and the steps of which somebody else takes care. Kinds are the kinds of steps of the plans.
func (b *Bed) tampers(kinds map[string]func() host.Step, seen, others map[string]bool) ([]tamper, error) {
	var list []tamper
	add := func(m *Machine, kind, text string, do func() error) {
		if text += kind; !seen[text] {
			seen[text] = true
			list = append(list, tamper{text: text, on: m, do: do})
		}
	}
	for _, m := range b.all() {
		on := func(ns, name string, f func(*link.Handle, link.Link) error) func() error {
			return func() error {
				h, err := m.Kernel.Links(ns)
				if err != nil {
					return err
				}
				l, err := h.ByName(name)
				if err != nil {
					return err
				}
				return f(h, l)
			}
		}
		links := func(kind, ns, name string, mtu int, up bool, addresses []string) error {
			if up {
				add(m, kind, "set down ", on(ns, name, func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }))
			}
			if mtu > 0 {
				add(m, kind, "change the MTU of ",
					on(ns, name, func(h *link.Handle, l link.Link) error { return h.SetMTU(l.Index, mtu-1) }))
			}
			for _, a := range addresses {
				p, err := netip.ParsePrefix(a)
				if err != nil {
					return err
				}
				family := "IPv4"
				if p.Addr().Is6() {
					family = "IPv6"
				}
				add(m, kind, "delete the "+family+" address of ",
					on(ns, name, func(h *link.Handle, l link.Link) error { return h.DeleteAddress(l.Index, p) }))
			}
			return nil
		}
		var err error
		for _, p := range m.Plans {
			for _, s := range p.Steps {
				text, terr := stepText(s)
				if err = errors.Join(err, terr); others[text] {
					continue
				}
				switch s := basic(kinds, s).(type) {
				case host.Bridge:
					err = errors.Join(err, links("a bridge", s.NS, s.Name, s.MTU, true, s.Addresses))
				case host.Veth:
					err = errors.Join(err, links("a veth", s.NS, s.Name, s.MTU, true, s.Addresses))
					if !s.PeerMoves {
						err = errors.Join(err, links("the peer of a veth", s.PeerNS, s.PeerName, s.MTU, true, s.PeerAddresses))
					}
					add(m, "a veth", "delete ", on(s.NS, s.Name, func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }))
				case macvlan.Link:
					err = errors.Join(err, links("a macvlan", s.NS, s.Name, s.MTU, true, s.Addresses))
					if s.Mode != "passthru" { // that cannot be changed
						add(m, "a macvlan", "change the mode of ", on(s.NS, s.Name, func(h *link.Handle, l link.Link) error {
							mode := "private"
							if s.Mode == mode {
								mode = "bridge"
							}
							return h.SetMacvlanMode(l.Index, mode)
						}))
					}
					add(m, "a macvlan", "delete ",
						on(s.NS, s.Name, func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }))
				case ipvlan.Link:
					// the MTU is that of the link below, and cannot be changed
					err = errors.Join(err, links("an ipvlan", s.NS, s.Name, 0, true, s.Addresses))
					add(m, "an ipvlan", "change the mode of ", on(s.NS, s.Name, func(h *link.Handle, l link.Link) error {
						mode := "l2"
						if s.Mode == mode {
							mode = "l3"
						}
						return h.SetIPVlanMode(l.Index, mode)
					}))
					add(m, "an ipvlan", "delete ",
						on(s.NS, s.Name, func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }))
				case host.MoveLink:
					err = errors.Join(err, links("moved link", s.NS, s.Name, s.MTU, true, s.Addresses))
					add(m, "moved link", "delete ",
						on(s.NS, s.Name, func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }))
				case nat.Translation:
					for text, change := range map[string]func(*nat.Translation){
						"delete ":                     nil,
						"forget a source of ":         func(n *nat.Translation) { n.Sources = n.Sources[1:] },
						"publish nothing by ":         func(n *nat.Translation) { n.Published = nil },
						"publish ports of others by ": func(n *nat.Translation) { n.Published[0].First-- },
					} {
						add(m, "a translation", text, func() error { return retranslate(m.Kernel, s, change) })
					}
				case host.Link:
					err = errors.Join(err, links(s.Name, s.NS, s.Name, s.MTU, s.Up, s.Addresses))
				case host.LinkSettings:
					for text, t := range retuned(s) {
						add(m, "a link", text, func() error {
							var stack host.Stack // what it finds there is never put back
							return stack.Apply(context.Background(), m.Kernel, host.Plan{Steps: []host.Step{t}})
						})
					}
				case host.Shape:
					add(m, "a link", "send at full speed by ", on(s.NS, s.Name, func(h *link.Handle, l link.Link) error {
						return h.SetQueue(l.Index, 100)
					}))
				case host.Neighbour:
					for text, change := range map[string]func(*host.Neighbour){
						"forget ": nil, "misplace ": func(n *host.Neighbour) { n.At = "02:00:00:00:00:fe" },
					} {
						if s.Proxy && change != nil {
							continue // it has no place
						}
						kind := "a neighbour"
						if s.Proxy {
							kind = "an answer for a neighbour"
						}
						add(m, kind, text, func() error { return resettle(m.Kernel, s, change) })
					}
				case host.Route:
					add(m, "a route", "remove ", func() error {
						h, err := m.Kernel.Links(s.NS)
						if err != nil {
							return err
						}
						to, err := netip.ParsePrefix(s.To)
						if err != nil {
							return err
						}
						routes, err := h.Routes(to)
						if err != nil {
							return err
						}
						var errs []error
						for _, r := range routes {
							errs = append(errs, h.DeleteRoute(r))
						}
						return errors.Join(errs...)
					})
				case host.Segment:
					err = errors.Join(err, links("a segment", s.NS, s.Name, s.MTU, true, nil))
					add(m, "a segment", "take out of its bridge ", on(s.NS, s.Name, func(h *link.Handle, l link.Link) error {
						return h.SetMaster(l.Index, 0)
					}))
					add(m, "a segment", "delete ", on(s.NS, s.Name, func(h *link.Handle, l link.Link) error {
						return h.Delete(l.Index)
					}))
					if len(s.Stations) > 0 {
						for text, change := range map[string]func(*link.Handle, link.Link, host.Station) error{
							"forget a host of ":        unplaced,
							"another host for one of ": misplaced,
							"forget a neighbour of ":   unanswered,
						} {
							add(m, "the stations of a segment", text, on(s.NS, s.Name, func(h *link.Handle, l link.Link) error {
								return change(h, l, s.Stations[0])
							}))
						}
					}
				case host.Multipath:
					for text, keep := range map[string]int{"remove ": 0, "remove one way of ": 1} {
						add(m, "a route with several ways", text, func() error { return narrow(m.Kernel, s, keep) })
					}
				case host.Sysctl:
					if s.IfPresent {
						if err := m.Do(func() error { _, err := sysctl.Read(s.Key); return err }); err != nil {
							continue // this kernel does not have it
						}
					}
					add(m, s.Key, "change ", func() error {
						return m.Kernel.Do(s.NS, func() error {
							// the kernel counts in ticks: a proxy_delay of 1 is 10 ms, which is no whole number of ticks at 250 Hz
							value := "100"
							if !strings.HasSuffix(s.Key, "_delay") {
								value = "1"
							}
							if sysctl.Normal(s.Value) == value {
								value = "0"
							}
							return sysctl.Write(s.Key, value)
						})
					})
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// retranslate puts another translation in the place of one, or nothing.
func retranslate(k *host.Kernel, n nat.Translation, change func(*nat.Translation)) error {
	if err := k.Do(n.NS, func() error { return nft.Delete(n.Table) }); err != nil || change == nil {
		return err
	}
	n.Published = slices.Clone(n.Published)
	change(&n)
	return n.Apply(context.Background(), k)
}

// entry is where a segment sends frames for a container.
func entry(l link.Link, s host.Station) (link.FDBEntry, error) {
	mac, err := net.ParseMAC(s.MAC)
	if err != nil {
		return link.FDBEntry{}, err
	}
	at, err := netip.ParseAddr(s.At)
	return link.FDBEntry{Link: l.Index, MAC: mac, At: at}, err
}

// unplaced makes a segment forget where a container is.
func unplaced(h *link.Handle, l link.Link, s host.Station) error {
	e, err := entry(l, s)
	if err != nil {
		return err
	}
	return h.DeleteFDBEntry(e)
}

// misplaced makes a segment send the frames for a container to another host.
func misplaced(h *link.Handle, l link.Link, s host.Station) error {
	e, err := entry(l, s)
	if err != nil {
		return err
	}
	if err := h.DeleteFDBEntry(e); err != nil {
		return err
	}
	e.At = e.At.Next()
	return h.AddFDBEntry(e)
}

// unanswered makes a segment forget the MAC address of a container.
func unanswered(h *link.Handle, l link.Link, s host.Station) error {
	a, err := netip.ParseAddr(s.Addresses[0])
	if err != nil {
		return err
	}
	return h.DeleteNeighbour(link.Neighbour{Link: l.Index, Address: a})
}

// narrow removes next hops from a route: all of them if keep is 0, otherwise all but the first one.
func narrow(k *host.Kernel, s host.Multipath, keep int) error {
	if err := s.Remove(context.Background(), k); err != nil || keep == 0 {
		return err
	}
	return host.Route{NS: s.NS, To: s.To, Via: s.Hops[0].Via, Dev: s.Hops[0].Dev}.Apply(context.Background(), k)
}

// retuned are the ways in which somebody could tune a link otherwise.
func retuned(t host.LinkSettings) map[string]host.LinkSettings {
	at := host.LinkSettings{NS: t.NS, Name: t.Name}
	ways := map[string]host.LinkSettings{}
	way := func(text string, change func(*host.LinkSettings)) {
		other := at
		change(&other)
		ways[text] = other
	}
	if t.Queue != "" {
		way("change the queue of ", func(o *host.LinkSettings) { o.Queue = "7" })
		way("take the queue from ", func(o *host.LinkSettings) { o.Queue = "0" })
		if t.Queue == "0" {
			delete(ways, "take the queue from ")
		}
	}
	if t.RPS != "" {
		way("receive elsewhere from ", func(o *host.LinkSettings) {
			if o.RPS = "off"; t.RPS == "off" {
				o.RPS = "all"
			}
		})
	}
	if t.RFS != "" {
		way("steer other flows of ", func(o *host.LinkSettings) {
			if o.RFS = "0"; t.RFS == "0" {
				o.RFS = "64"
			}
		})
	}
	if len(t.On) > 0 {
		way("switch off "+t.On[0]+" of ", func(o *host.LinkSettings) { o.Off = t.On[:1] })
	}
	if len(t.Off) > 0 {
		way("switch on "+t.Off[0]+" of ", func(o *host.LinkSettings) { o.On = t.Off[:1] })
	}
	return ways
}

// resettle puts other neighbours in the place of some, or none.
func resettle(k *host.Kernel, n host.Neighbour, change func(*host.Neighbour)) error {
	if change == nil {
		return errors.Join(n.Apply(context.Background(), k), n.Remove(context.Background(), k))
	}
	change(&n)
	return n.Apply(context.Background(), k)
}

// basic turns a step into the type of its kind: a test may have wrapped it.
func basic(kinds map[string]func() host.Step, s host.Step) host.Step {
	data, err := json.Marshal(host.Plan{Steps: []host.Step{s}})
	if err != nil {
		return s
	}
	p, err := host.Decoder{Kinds: kinds}.Decode(data)
	if err != nil {
		return s // of a kind that only the test knows
	}
	return p.Steps[0]
}
