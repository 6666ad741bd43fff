package networktest

import (
	"bytes"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// echoHeader is the length of the header of an echo, RFC 792 and RFC 4443 section 4.1.
const echoHeader = 8

// translated says whether containers of the lab are reached at addresses that are not theirs, where nobody knows whom
// an echo is for: the host answers.
func translated(n network.Network, lab network.Lab) bool {
	t, ok := n.(network.Translator)
	return ok && t.Translates(len(lab.Hosts), lab.Params)
}

// Translates asks the network about its own parameters.
func (v variant) Translates(hosts int, _ part.Params) bool {
	t, ok := v.Network.(network.Translator)
	return ok && t.Translates(hosts, v.params)
}

// echoes asks for echoes of these sizes and wants each back, and the sink to have counted them: they are not somebody
// else's.
func echoes(source, sink end, family string, sizes ...int) error {
	ipv6 := family == "ipv6"
	var counter *sock.Echoes
	if err := sink.kernel.Do(sink.Namespace, func() (err error) {
		counter, err = sock.NewEchoes(ipv6)
		return err
	}); err != nil {
		return err
	}
	defer counter.Close()
	before, err := counter.Count()
	if err != nil {
		return err
	}
	network := "ip4:icmp"
	if ipv6 {
		network = "ip6:ipv6-icmp"
	}
	var c *net.IPConn
	if err := source.kernel.Do(source.Namespace, func() (err error) {
		c, err = net.ListenIP(network, &net.IPAddr{IP: source.Bind(family).AsSlice()})
		return err
	}); err != nil {
		return err
	}
	defer c.Close()
	for i, size := range sizes {
		if err := echo(c, sink, family, i, pattern(size, byte(i))); err != nil {
			return fmt.Errorf("ask for an echo of %d bytes: %w", size, err)
		}
	}
	after, err := counter.Count()
	if err == nil && after < before+int64(len(sizes)) {
		err = fmt.Errorf("%d echoes came back, and their sink has counted %d: somebody else answered", len(sizes),
			after-before)
	}
	return err
}

// echo asks for one. A raw socket is given the messages of others, too, which are left.
func echo(c *net.IPConn, sink end, family string, number int, data []byte) error {
	request, reply, protocol := icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply), 1
	if family == "ipv6" { // the kernel puts the checksum in (RFC 3542, section 3.1)
		request, reply, protocol = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, 58
	}
	id := int(sink.ports.First)
	message, err := (&icmp.Message{Type: request, Body: &icmp.Echo{ID: id, Seq: number, Data: data}}).Marshal(nil)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.WriteToIP(message, &net.IPAddr{IP: sink.Bind(family).AsSlice()}); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFromIP(buf)
		if err != nil {
			return err
		}
		m, err := icmp.ParseMessage(protocol, buf[:n])
		if err != nil || m.Type != reply {
			continue
		}
		if body, ok := m.Body.(*icmp.Echo); !ok || body.ID != id || body.Seq != number {
			continue
		} else if !bytes.Equal(body.Data, data) {
			return fmt.Errorf("%d bytes come back as %d others", len(data), len(body.Data))
		}
		if want := sink.Bind(family); !from.IP.Equal(want.AsSlice()) {
			return fmt.Errorf("it comes from %s, want %s", from, want)
		}
		return nil
	}
}
