package tcpstream_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

const name = "eth0"

// path is a veth pair between two namespaces.
type path struct {
	places map[workload.Side]workloadtest.Where
	links  map[workload.Side]*netlink.Handle
}

// newPath makes a path with MTU 1500 and the addresses 1 and 2 of a network.
func newPath(t *testing.T, network netip.Prefix) *path {
	t.Helper()
	p := &path{places: map[workload.Side]workloadtest.Where{}, links: map[workload.Side]*netlink.Handle{}}
	machines := map[workload.Side]*testnet.Machine{workload.Source: testnet.New(t), workload.Sink: testnet.New(t)}
	sides := []workload.Side{workload.Source, workload.Sink}
	inside := func(side workload.Side, f func(h *link.Handle) error) {
		t.Helper()
		err := machines[side].Do(func() error {
			h, err := link.Open()
			if err != nil {
				return err
			}
			defer h.Close()
			return f(h)
		})
		testnet.Skip(t, err)
	}
	inside(workload.Source, func(h *link.Handle) error {
		_, err := h.AddVeth(link.Veth{Name: name, PeerName: name, PeerNS: machines[workload.Sink].NS, MTU: 1500})
		return err
	})
	for _, side := range sides {
		inside(side, func(h *link.Handle) error {
			// As in labs, an address is usable at once.
			if err := sysctl.Write("net.ipv6.conf."+name+".accept_dad", "0"); err != nil {
				return err
			}
			l, err := h.ByName(name)
			if err != nil {
				return err
			}
			return h.SetUp(l.Index, true)
		})
	}
	at := network.Addr()
	for _, side := range sides { // when both are up, because IPv6 then knows its neighbours at once
		at = at.Next()
		p.places[side] = workloadtest.Where{Address: at, Do: machines[side].Do}
		inside(side, func(h *link.Handle) (err error) {
			l, err := h.ByName(name)
			if err != nil {
				return err
			}
			if p.links[side], err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
				return err
			}
			t.Cleanup(p.links[side].Close)
			return h.AddAddress(l.Index, netip.PrefixFrom(at, network.Bits()))
		})
	}
	for _, side := range sides {
		p.settle(t, side)
		workloadtest.Settled(t, p.places[side])
	}
	return p
}

// settle waits until the kernel's worker has made the addresses of a side usable.
func (p *path) settle(t *testing.T, side workload.Side) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		addresses, err := p.links[side].AddrList(p.link(t, side), netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the addresses of the %s are %v", side, addresses)
		}
	}
}

func (p *path) link(t *testing.T, side workload.Side) netlink.Link {
	t.Helper()
	l, err := p.links[side].LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// slow gives the link of a side a token bucket with a rate in bytes a second.
func (p *path) slow(t *testing.T, side workload.Side, rate uint64) {
	t.Helper()
	// bytes: 5 and 10 ms at 100 Mbit/s, so that a late timer has no effect
	const burst, queue = 64 << 10, 128 << 10
	err := p.links[side].QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: p.link(t, side).Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
		},
		Rate: rate, Limit: queue, Buffer: netlink.Xmittime(rate, burst),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// carried returns the number of bytes that the link of a side has received, including Ethernet headers.
func (p *path) carried(t *testing.T, side workload.Side) uint64 {
	t.Helper()
	return p.link(t, side).Attrs().Statistics.RxBytes
}

// A token bucket of 100 Mbit/s counts Ethernet frames without preamble, checksum and gap. Of the 1514 bytes of a full
// frame, 1448 belong to the stream: 1500 minus 20 for IPv4, 20 for TCP and 12 for its timestamps (RFC 7323). So TCP can
// get 95.6 Mbit/s; with IPv6, whose header has 40 bytes, 94.3 Mbit/s. The limits of 94 to 97 Mbit/s with IPv4 allow 1.7
// % less or 1.4 % more, for the bucket's 64 KiB and the time between two readings of the slices. The path is the limit,
// and no more was read than the interface has carried.
func TestTokenBucket(t *testing.T) {
	const rate, frame = 100e6, 1514.
	for network, payload := range map[string]float64{"192.0.2.0/24": 1448, "2001:db8::/64": 1428} {
		t.Run(network, func(t *testing.T) {
			p := newPath(t, netip.MustParsePrefix(network))
			p.slow(t, workload.Source, rate/8)
			r := workloadtest.NewRig(t, tcpstream.Workload{}, workloadtest.Options{
				Pairs: 1, Length: time.Second, Where: p.places, Given: map[string]string{"congestion": "cubic"},
			})
			most := rate * payload / frame
			// A busy machine may reach less: the bucket's queue holds 10 ms. More is not possible.
			witness.Until(t, workloadtest.Borne(), func() error {
				before := p.carried(t, workload.Sink)
				trial, result := r.Trial(t)
				got, read, carried := result.Metrics["goodput"], trial.Sinks[0].Bytes, int64(p.carried(t, workload.Sink)-before)
				t.Logf("%.2f Mbit/s of %.2f; %d bytes of %d; source %+v; sink %+v; %q %q", got/1e6, most/1e6, read, carried,
					trial.Sources[0], trial.Sinks[0], result.Limit, result.Warnings)
				if got > 1.014*most || read > carried {
					t.Fatalf("%.2f Mbit/s came through a token bucket of 100; %d bytes were read, and the interface has carried %d",
						got/1e6, read, carried)
				}
				if got > 0.983*most && result.Limit == workload.ByPath {
					return nil
				}
				return fmt.Errorf("%.2f Mbit/s came through a token bucket of 100, and the limit is %q", got/1e6, result.Limit)
			})
		})
	}
}

// If completions of sends with zero copy may use hardly any memory, sends wait for their turn, and nothing is lost.
func TestNoRoom(t *testing.T) {
	p := newPath(t, netip.MustParsePrefix("192.0.2.0/24"))
	for _, place := range p.places {
		// room for four completions
		if err := place.Do(func() error { return sysctl.Write("net.core.optmem_max", "2048") }); err != nil {
			testnet.Skip(t, &linux.UnsupportedError{
				What: "bound the memory of completions", Missing: "net.core.optmem_max of a namespace", Hint: "Linux 6.8 has it",
			})
		}
	}
	for _, given := range []map[string]string{{}, {"flows": "2", "direction": "both"}} {
		given["zerocopy"], given["congestion"] = "true", "reno"
		r := workloadtest.NewRig(t, tcpstream.Workload{}, workloadtest.Options{
			Pairs: 1, Length: 100 * time.Millisecond, Where: p.places, Given: given,
		})
		for range 2 {
			witness.Until(t, workloadtest.Borne(), func() error {
				trial, result := r.Trial(t)
				if trial.Failure() != "" || result.Metrics["goodput"] <= 0 ||
					!slices.Contains(result.Warnings,
						"zero copy: the kernel copied anyway, as loopback and veth do: use zerocopy=off") {
					return fmt.Errorf("%v: %q, %v, %q", given, trial.Failure(), result.Metrics, result.Warnings)
				}
				return nil
			})
		}
	}
}
