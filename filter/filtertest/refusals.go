package filtertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
)

// attempt is a packet that is tried, and whether it is to pass.
type attempt struct {
	text string
	want bool
	try  func() error // sends it
	key  string       // what arrives says this
	// maybe says that it need not arrive where nothing refuses it.
	maybe bool
}

// refusals sends what is not allowed from every container to every other, all at once, and some that is: over UDP, TCP,
// ICMP and a protocol that nobody has.
func (c *trial) refusals(s *stand, listed []string) error {
	ends := s.ends()
	list := func(family string) bool { return slices.Contains(listed, family) }
	heard := &ears{came: map[string]int{}}
	defer heard.close()
	var attempts []attempt
	var dials sync.WaitGroup
	for _, family := range []string{"ipv4", "ipv6"} {
		for _, to := range ends {
			for _, port := range []uint16{to.ports.First, to.ports.Last} {
				if err := heard.listen(to, family, port); err != nil {
					return err
				}
			}
			if err := heard.raw(to, family); err != nil {
				return err
			}
		}
		for _, from := range ends {
			// From the first of these a source sends and a sink answers, the second is nobody's.
			var outs []*net.UDPConn
			for _, port := range []uint16{from.ports.First + 2, nobodys} {
				out, err := udp(from, netip.AddrPortFrom(from.Bind(family), port))
				if err != nil {
					return err
				}
				defer out.Close()
				outs = append(outs, out)
			}
			for _, to := range ends {
				if from.spot == to.spot {
					continue
				}
				targets := []netip.Addr{to.Public(family)}
				if to.Public(family) != to.Bind(family) {
					targets = append(targets, to.Bind(family))
				}
				for way, target := range targets {
					for _, port := range []uint16{to.ports.First, to.ports.Last} {
						may := list(family) && way == 0 && s.paired(from, to) && port == to.ports.First
						// a datagram that looks like one
						answer := list(family) && way == 0 && !c.params.On(filter.Stateful) && s.paired(to, from)
						for i, out := range outs {
							key := fmt.Sprintf("udp %s from %s#%d to %s:%d", family, from.name, i, netip.AddrPortFrom(target, port), way)
							attempts = append(attempts, attempt{text: key, want: (may || answer) && i == 0, key: key, try: func() error {
								_, err := out.WriteToUDPAddrPort([]byte(key), netip.AddrPortFrom(target, port))
								return err
							}})
						}
						key := fmt.Sprintf("tcp %s from %s to %s", family, from.name, netip.AddrPortFrom(target, port))
						attempts = append(attempts, attempt{text: key, want: may, key: key, try: func() error {
							dials.Go(func() {
								if conn, err := dial(from, family, netip.AddrPortFrom(target, port)); err == nil {
									heard.note(key)
									_ = conn.Close()
								}
							})
							return nil
						}})
					}
					if c.translated {
						continue // what has no ports is for the host itself
					}
					key := fmt.Sprintf("icmp %s from %s to %s", family, from.name, target)
					attempts = append(attempts,
						attempt{text: key, want: list(family) && s.paired(from, to), key: key, try: func() error {
							dials.Go(func() {
								if ok, err := echo(from, target, 56, settle); err == nil && ok {
									heard.note(key)
								}
							})
							return nil
						}})
					raw := fmt.Sprintf("protocol %d, %s from %s to %s", experimental, family, from.name, target)
					attempts = append(attempts, attempt{
						text: raw, key: raw, try: func() error { return shout(from, family, target, raw) },
					})
					if c.where.Point != network.InContainer { // whose stack puts fragments together before it filters
						heard.fragment(from, to, family, target)
					}
				}
			}
		}
	}
	smuggled, err := c.smuggle(s, heard, list, &dials)
	if err != nil {
		return err
	}
	attempts = append(attempts, smuggled...)
	if err := heard.fragments(c, list, s.paired); err != nil {
		return err
	}
	for round := range rounds {
		for _, a := range attempts {
			if round > 0 && (!a.want || heard.count(a.key) > 0) {
				continue // what is to be refused is tried once; what may pass can be lost on a busy machine
			}
			if err := a.try(); err != nil && !refusedAtOnce(err) {
				return fmt.Errorf("%s: %w", a.text, err)
			}
		}
		dials.Wait()
		time.Sleep(settle / 3)
		if !slices.ContainsFunc(attempts, func(a attempt) bool { return a.want && heard.count(a.key) == 0 }) {
			break
		}
	}
	var wrong []string
	for _, a := range attempts {
		if got := heard.count(a.key) > 0; got != a.want {
			what := "passes, and must not"
			if a.want {
				what = "does not pass"
			}
			wrong = append(wrong, a.text+" "+what)
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// refusedAtOnce says whether the sender was told that its packet is not let through, or that there is no way.
func refusedAtOnce(err error) bool {
	for _, no := range []error{
		syscall.EPERM, syscall.EACCES, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func dial(from end, family string, to netip.AddrPort) (net.Conn, error) {
	return inside(from, func() (net.Conn, error) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from.Bind(family), 0)), Timeout: settle}
		return d.Dial("tcp", to.String())
	})
}

func protocolOf(family string) string {
	if family == "ipv6" {
		return fmt.Sprintf("ip6:%d", experimental)
	}
	return fmt.Sprintf("ip4:%d", experimental)
}

// shout sends a packet of a protocol that nobody has.
func shout(from end, family string, to netip.Addr, text string) error {
	c, err := inside(from, func() (*net.IPConn, error) {
		return net.ListenIP(protocolOf(family), &net.IPAddr{IP: from.Bind(family).AsSlice()})
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WriteToIP([]byte(text), &net.IPAddr{IP: to.AsSlice()})
	return err
}
