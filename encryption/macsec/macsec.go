package macsec

import (
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/macsec"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Parameters.
const (
	cipher = "cipher"
	window = "window"
)

const (
	name = "macsec"
	// link is the device of each host.
	link = "macsec0"
)

// Encryption is the encryption "macsec".
type Encryption struct{}

// Describe says what it is.
func (Encryption) Describe() part.Description {
	ciphers := macsec.Names()
	return part.Description{
		Name: name, Summary: "MACsec by the kernel between all hosts, with keys that stay", Implementation: "kernel",
		Params: part.List{
			{
				Name: cipher, Default: ciphers[0], Values: ciphers,
				Summary: "how frames are encrypted; xpn: with packet numbers of 64 bits instead of 32",
			},
			{
				Name: window, Default: "1024", Check: part.CountBetween(0, widest), Quiet: true,
				Summary: "how many packets late a frame may come, also a repeated one; 0: no frame is taken twice, and one that " +
					"another has overtaken is lost",
			},
		},
		Near: near,
	}
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{{Names: []string{"802.1ae", "mka"}, Why: "it is IEEE 802.1AE, with keys that are given"}}
}

// widest is the widest window, in packets: the kernel's attribute has 32 bits.
const widest = 1<<32 - 1

// read reads the parameters.
func read(p part.Params) (macsec.Cipher, uint32, error) {
	c, err := macsec.Find(p[cipher])
	if err != nil {
		return c, 0, err
	}
	n := uint32(p.Count(window))
	return c, n, c.CheckWindow(n)
}

// Steps are its own.
func (Encryption) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Device{}.Kind(): func() host.Step { return new(Device) }}
}

// Check wants a kernel that has it.
func (Encryption) Check(p part.Params) error {
	c, _, err := read(p)
	if err != nil {
		return err
	}
	return macsec.InKernel(c)
}

// overhead is what it adds to a frame: the tag, with the identifier of the sender, and the check value.
func overhead() network.Overhead {
	return network.Overhead{Bytes: 32, Source: "16 SecTAG with SCI, 16 ICV (IEEE 802.1AE-2018, sections 9.3 and 14.5)"}
}

// Carry puts a device on the link of each host to the span below, and gives it all keys.
func (Encryption) Carry(lab network.Lab, p part.Params) (network.Span, error) {
	c, n, err := read(p)
	if err != nil {
		return network.Span{}, err
	}
	below := lab.Top()
	switch {
	case below.Layer != 2 && len(lab.Spans) == 1:
		return network.Span{}, &network.UnfitError{Reason: name + " protects Ethernet frames, which end at a router of the " +
			"underlay (hint: underlay.hops=0)"}
	case below.Layer != 2:
		return network.Span{}, &network.UnfitError{Reason: fmt.Sprintf("%s protects Ethernet frames, but %s carries IP "+
			"packets (hint: have %s stand on the underlay)", name, below.Name, name)}
	}
	top := lab.Above(name, 2, "", link, overhead())
	top.Wire, top.Protected = []network.Protocol{{Name: "MACsec", Number: macsec.EtherType}}, true
	top.Cipher = strings.ToUpper(c.Name)
	top.Guards = network.Guards{
		Authentic: true, Once: n == 0, // within the window a frame is taken again
		Settled: "keys and ciphers are those of the plan, and hosts negotiate nothing",
	}
	if n > 0 {
		top.Guards.Claims = threat.Leaves("it takes frames within its window again", threat.WireReplay, threat.WireReorder)
	}
	for i, h := range lab.Hosts {
		d := Device{
			Name: link, Below: below.Reach[i][i].Link, Cipher: c.Name, Window: n,
			Own: Channel{Host: h.Index, MAC: below.Reach[i][i].MAC},
		}
		for j, other := range lab.Hosts {
			// as the kernel does, which gives a device the address of the link below
			top.Reach[i][j].MAC = below.Reach[i][j].MAC
			if j != i {
				d.Peers = append(d.Peers, Channel{Host: other.Index, MAC: below.Reach[i][j].MAC})
			}
		}
		top.Steps[i] = []host.Step{d}
	}
	lab.Mesh(top)
	return top, nil
}
