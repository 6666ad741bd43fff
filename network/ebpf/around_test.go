package ebpf_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
)

// What the program does not forward is the stack's: a container and its host talk both ways, and a container and
// another host.
func TestTheStackDoesTheRest(t *testing.T) {
	for _, attach := range []string{"tcx", "tc", "xdp", "netkit"} {
		t.Run(attach, func(t *testing.T) {
			b := stand(t, attach, networktest.Lab(2, 1))
			source := place{b.Hosts[0].Kernel, b.Ends[0][0]}
			for i, h := range b.Lab.Hosts {
				own4, own6 := h.Underlay()
				if i == 0 {
					own4, own6 = network.Gateway(h.Index)
				}
				itself := place{b.Hosts[i].Kernel, network.Endpoint{IPv4: own4.Addr(), IPv6: own6.Addr()}}
				for _, family := range []string{"ipv4", "ipv6"} {
					const hops = 64
					want := hops - i // the other host is behind one's own
					if got, err := passes(source, itself, family, hops, 2*time.Second); err != nil || got != want {
						t.Errorf("%s: from a container to host %d: %d hops (%v), want %d", family, h.Index, got, err, want)
					}
					if got, err := passes(itself, source, family, hops, 2*time.Second); err != nil || got != want {
						t.Errorf("%s: from host %d to a container: %d hops (%v), want %d", family, h.Index, got, err, want)
					}
				}
			}
		})
	}
}

// A program before the one that forwards decides first: on the link of the source, and on the uplink for what comes
// from another host.
func TestFiltersComeFirst(t *testing.T) {
	for _, attach := range []string{"tcx", "tc"} {
		for _, hosts := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d hosts", attach, hosts), func(t *testing.T) {
				b := stand(t, attach, networktest.Lab(hosts, 1))
				last := b.Hosts[hosts-1]
				source, sink := place{b.Hosts[0].Kernel, b.Ends[0][0]}, place{last.Kernel, b.Ends[hosts-1][len(b.Ends[hosts-1])-1]}
				at := "vsrc0"
				if hosts > 1 {
					at = "up0"
				}
				const next, drop = -1, 2 // TCX_NEXT, TCX_DROP of include/uapi/linux/bpf.h
				for _, c := range []struct {
					verdict int32
					within  time.Duration
					want    error
				}{{next, 2 * time.Second, nil}, {drop, 50 * time.Millisecond, os.ErrDeadlineExceeded}} {
					testnet.Skip(t, last.Do(func() error { // before Linux 6.6 nothing can come before the one at tc
						p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
							Name: "verdict", Type: ebpf.SchedCLS, License: "Apache-2.0",
							Instructions: asm.Instructions{
								asm.Mov.Imm(asm.R0, c.verdict),
								asm.Return(),
							},
						})
						if err != nil {
							return err
						}
						defer p.Close()
						links, err := bpf.Open()
						if err != nil {
							return err
						}
						defer links.Close()
						attached, err := links.Attach(p, bpf.TCXIngress, links.Index(at), true)
						if err != nil {
							return err
						}
						for _, family := range []string{"ipv4", "ipv6"} {
							if _, err := passes(source, sink, family, 64, c.within); !errors.Is(err, c.want) {
								t.Errorf("%s: a datagram behind a program that says %d: %v, want %v", family, c.verdict, err, c.want)
							}
						}
						if err := last.Stack.Verify(t.Context(), last.Kernel); err != nil {
							t.Errorf("with a filter before it: %v", err)
						}
						return attached.Close()
					}))
				}
			})
		}
	}
}

// A host that sends a broadcast with somebody's address in it must not have it forwarded (RFC 1812, section 5.3.4).
func TestBroadcastsAreNotForwarded(t *testing.T) {
	for _, attach := range []string{"tcx", "tc", "xdp", "netkit"} {
		t.Run(attach, func(t *testing.T) {
			b := stand(t, attach, networktest.Lab(1, 1))
			k := b.Hosts[0].Kernel
			source, sink := place{k, b.Ends[0][0]}, place{k, b.Ends[0][1]}
			// The container believes its router to be where everybody listens.
			h, err := k.Links(source.Namespace)
			if err != nil {
				t.Fatal(err)
			}
			l, err := h.ByName(source.Inner)
			if err != nil {
				t.Fatal(err)
			}
			gate, _ := network.Gateway(1)
			everybody, err := net.ParseMAC("ff:ff:ff:ff:ff:ff")
			if err != nil {
				t.Fatal(err)
			}
			if err := h.SetNeighbour(link.Neighbour{Link: l.Index, Address: gate.Addr(), MAC: everybody}); err != nil {
				t.Fatal(err)
			}
			if hops, err := passes(source, sink, "ipv4", 64, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a broadcast arrives with %d hops (%v), want it dropped", hops, err)
			}
		})
	}
}
