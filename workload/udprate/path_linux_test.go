package udprate_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// path is a veth pair between two namespaces, MTU 1500.
type path struct {
	places map[workload.Side]workloadtest.Where
	links  map[workload.Side]*netlink.Handle
}

const (
	ipv4 = "192.0.2.0/24"
	ipv6 = "2001:db8::/64"
)

func newPath(t *testing.T, network string) *path {
	t.Helper()
	p := &path{places: map[workload.Side]workloadtest.Where{}, links: map[workload.Side]*netlink.Handle{}}
	machines := map[workload.Side]*testnet.Machine{workload.Source: testnet.New(t), workload.Sink: testnet.New(t)}
	prefix := netip.MustParsePrefix(network)
	at := prefix.Addr()
	if at.Is4() { // only what the tests send, without the packets of IPv6 itself
		for _, m := range machines {
			testnet.Skip(t, m.Do(func() error { return sysctl.Write("net.ipv6.conf.default.disable_ipv6", "1") }))
		}
	}
	for _, side := range []workload.Side{workload.Source, workload.Sink} {
		m := machines[side]
		at = at.Next()
		p.places[side] = workloadtest.Where{Address: at, Do: m.Do}
		err := m.Do(func() (err error) {
			if p.links[side], err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
				return err
			}
			h, err := link.Open()
			if err != nil {
				return err
			}
			defer h.Close()
			if side == workload.Source {
				if _, err := h.AddVeth(link.Veth{
					Name: "eth0", PeerName: "eth0", PeerNS: machines[workload.Sink].NS, MTU: 1500,
				}); err != nil {
					return err
				}
			}
			l, err := h.ByName("eth0")
			if err != nil {
				return err
			}
			return errors.Join(h.AddAddress(l.Index, netip.PrefixFrom(at, prefix.Bits())), h.SetUp(l.Index, true))
		})
		testnet.Skip(t, err)
		t.Cleanup(p.links[side].Close)
	}
	for _, side := range []workload.Side{workload.Source, workload.Sink} {
		p.settle(t, side)
		workloadtest.Settled(t, p.places[side])
	}
	return p
}

// settle waits until the addresses of a side are usable: IPv6 checks for a second whether an address is a duplicate.
func (p *path) settle(t *testing.T, side workload.Side) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l, err := p.links[side].LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		addresses, err := p.links[side].AddrList(l, netlink.FAMILY_ALL)
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

// shape gives the source's link a token bucket: a rate in bytes a second, a burst and a queue in bytes.
func (p *path) shape(t *testing.T, rate uint64, burst, queue uint32) {
	t.Helper()
	h := p.links[workload.Source]
	l, err := h.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.QdiscReplace(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
		},
		Rate: rate, Limit: queue, Buffer: netlink.Xmittime(rate, burst),
	}); err != nil {
		t.Fatal(err)
	}
}

// counters returns the counters of a link: what the source's link has sent, or what the sink's link has received.
func (p *path) counters(t *testing.T, side workload.Side) (packets, bytes uint64) {
	t.Helper()
	l, err := p.links[side].LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	s := l.Attrs().Statistics
	if side == workload.Source {
		return s.TxPackets, s.TxBytes
	}
	return s.RxPackets, s.RxBytes
}

// forms returns parameters for all ways to send.
func forms() []map[string]string {
	return []map[string]string{
		{"mode": "single"},
		{"mode": "single", "flows": "3"},
		{"mode": "batched", "batch": "16", "flows": "2"},
		{"mode": "segmented"},
	}
}

func with(given map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, given)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// Each sent datagram is received, lost or late, and the links have carried exactly what source and sink count. A
// message that the kernel will cut into segments crosses a veth as one packet, with one set of headers: so the test
// compares the payload.
func TestCarried(t *testing.T) {
	const ethernet, ip, udp, payload = 14, 20, 8, 100
	p := newPath(t, ipv4)
	for _, form := range forms() {
		r := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
			Pairs: 1, Length: 60 * time.Millisecond, Where: p.places,
			Given: with(form, "payload", fmt.Sprint(payload), "rate", "20k/s"),
		})
		r.Trial(t) // the neighbours are resolved
		for range 3 {
			sentPackets, sentBytes := p.counters(t, workload.Source)
			gotPackets, gotBytes := p.counters(t, workload.Sink)
			trial, _ := r.Trial(t)
			packets, bytes := p.counters(t, workload.Source)
			source, sink := trial.Sources[0], trial.Sinks[0]
			flows := int64(max(1, r.Params.Count("flows")))
			carried := int64(bytes-sentBytes) - int64(packets-sentPackets)*(ethernet+ip+udp)
			// The rest is end markers, the same number for each flow.
			markers := carried - source.Total*payload
			if markers < flows*traffic.HeaderSize || markers%(flows*traffic.HeaderSize) != 0 {
				t.Errorf("%v: the link carried %d bytes of payload, the source counts %d datagrams: %+v", form, carried,
					source.Total, source)
			}
			packets, bytes = p.counters(t, workload.Sink)
			if came := int64(bytes-gotBytes) - int64(packets-gotPackets)*(ethernet+ip+udp); came != carried {
				t.Errorf("%v: %d bytes of payload of %d crossed the link", form, came, carried)
			}
			if lost := source.Total - sink.Total; lost < 0 || sink.Doubt == "" && form["mode"] != "segmented" && lost > 0 &&
				(sink.Counts["dropped"] < lost || sink.Counts["dropped"] > lost+markers/traffic.HeaderSize) {
				t.Errorf("%v: %d of %d sent were not received, and the receive buffer dropped %d: %+v", form, lost, source.Total,
					sink.Counts["dropped"], sink)
			}
		}
	}
}

// Both families carry every form at full rate. No more is received than sent, and missing datagrams were dropped at the
// full buffer.
func TestFamilies(t *testing.T) {
	for _, network := range []string{ipv4, ipv6} {
		p := newPath(t, network)
		for _, form := range forms() {
			r := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
				Pairs: 1, Length: 30 * time.Millisecond, Where: p.places, Given: form,
			})
			for range 3 {
				var (
					result       workload.Result
					source, sink traffic.Sample
				)
				witness.Until(t, workloadtest.Borne(), func() error {
					var trial workload.Trial
					trial, result = r.Trial(t)
					source, sink = trial.Sources[0], trial.Sinks[0]
					if sink.Total == 0 {
						return fmt.Errorf("%s, %v: nothing came: %+v, %+v", network, form, source, sink)
					}
					return nil
				})
				if sink.Total > source.Total || sink.Received > source.Sent || sink.Counts[traffic.CountRepeated] > 0 ||
					sink.Counts[traffic.CountReordered] > 0 {
					t.Errorf("%s, %v: %+v, %+v", network, form, source, sink)
				}
				t.Logf("%s, %v: %.0f/s, %d sent, %d received, %d dropped, %d awaited: %s", network, form,
					result.Metrics["packet_rate"],
					source.Total, sink.Total, sink.Counts["dropped"], sink.Counts["awaited"], result.Limit)
			}
		}
	}
}

// A token bucket of 1 MB/s passes 1000 frames of 1000 bytes a second, and a search finds that rate. It never finds
// more, except for the share of the bucket and of the tolerance for the last marker in a step. It finds less if other
// work takes the CPUs away for longer than the queue lasts. (At such a low rate, the source sleeps between two
// datagrams and gets a CPU on a machine with other work, unlike a spinning one.)
func TestSearchFindsTokenBucket(t *testing.T) {
	const rate, frame, headers = 1e6, 1000, 14 + 20 + 8
	const want = rate / frame
	for _, tt := range []struct {
		name  string
		queue uint32
	}{
		{"which soon drops", 20 * frame},
		{"with a queue that no step fills", 1e7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPath(t, ipv4)
			p.shape(t, rate, 2*frame, tt.queue)
			r := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
				Pairs: 1, Length: time.Second, Where: p.places, Given: map[string]string{
					"search": "no-drop", "payload": fmt.Sprint(frame - headers),
				},
			})
			// of 20 waiting frames, which is 20 ms, half may be due at once
			witness.Until(t, workloadtest.Borne(), func() error {
				trial, result := r.Trial(t)
				got := result.Metrics["no_drop_rate"]
				t.Logf("%.0f/s, loss %.4f, %s, %q %q", got, result.Metrics["loss"], result.Limit, result.Warnings, trial.Failure())
				// of the 200 frames of a long step, 2 are in the bucket, 3 may be late, and one is the fence post
				most := 1.04 * want
				if len(result.Warnings) > 0 {
					most = 1.12 * want // of the 40 of a short step, 2 are in the bucket, 1.4 late, 1 the fence post
				}
				if got > most {
					t.Errorf("it found %.0f/s, and the bucket lets %.0f through", got, want)
				}
				if result.Metrics["loss"] > 0.001 {
					t.Errorf("a loss of %g at the rate without loss", result.Metrics["loss"])
				}
				if got <= 0.96*want {
					return fmt.Errorf("the search found %.0f/s, and the bucket lets %.0f through", got, want)
				}
				return nil
			})
		})
	}
}

// Cases in which the limit is known in advance.
func TestLimit(t *testing.T) {
	const buffer = "16MiB" // holds everything that arrives while the sink is off its CPU
	for _, tt := range []struct {
		name  string
		given map[string]string
		stall workload.Stall
		shape func(*testing.T, *path)
		want  workload.Limit
	}{
		{name: "a sink with room for everything", given: map[string]string{"recv-buffer": buffer}, want: workload.BySender},
		{name: "in batches", given: map[string]string{"recv-buffer": buffer, "mode": "batched"}, want: workload.BySender},
		{name: "at a rate", given: map[string]string{"recv-buffer": buffer, "rate": "5k/s"}, want: workload.BySender},
		{
			name: "a sink that stands still", stall: workload.Stall{Every: 5 * time.Millisecond, For: 4 * time.Millisecond},
			given: map[string]string{"rate": "300k/s"}, want: workload.ByReceiver,
		},
		{
			name: "segments for a sink that stands still", stall: workload.Stall{
				Every: 5 * time.Millisecond, For: 4 * time.Millisecond,
			},
			given: map[string]string{"mode": "segmented"}, want: workload.ByReceiver,
		},
		{
			name: "a path that drops", given: map[string]string{"recv-buffer": buffer}, want: workload.ByPath,
			shape: func(t *testing.T, p *path) { p.shape(t, 1e6, 2000, 4000) },
		},
		{
			name: "a path that holds back", given: map[string]string{"recv-buffer": buffer}, want: workload.ByPath,
			shape: func(t *testing.T, p *path) { p.shape(t, 1e6, 5000, 1e8) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPath(t, ipv4)
			if tt.shape != nil {
				tt.shape(t, p)
			}
			r := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
				Pairs: 1, Length: 50 * time.Millisecond, Where: p.places, Given: tt.given, Stall: tt.stall,
			})
			witness.Until(t, workloadtest.Borne(), func() error {
				trial, result := r.Trial(t)
				if result.Limit != tt.want {
					return fmt.Errorf("limit %q, want %q: %+v %+v", result.Limit, tt.want, trial.Sources, trial.Sinks)
				}
				return nil
			})
		})
	}
}

// A datagram larger than the MTU is fragmented; segments are not, which opening them detects.
func TestSmallMTU(t *testing.T) {
	p := newPath(t, ipv4)
	r := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 20 * time.Millisecond, Where: p.places, Given: map[string]string{"payload": "4000", "rate": "1k/s"},
	})
	if _, result := r.Trial(t); result.Metrics["packet_rate"] <= 0 {
		t.Errorf("fragments: %+v", result)
	}
	params, err := udprate.Workload{}.Describe().Resolve(map[string]string{"payload": "4000", "mode": "segmented"})
	if err != nil {
		t.Fatal(err)
	}
	err = p.places[workload.Source].Do(func() error {
		e, err := udprate.Workload{}.Open(workload.Spec{
			Params: params, Side: workload.Source, Local: netip.AddrPortFrom(p.places[workload.Source].Address, 20000),
			Remote: netip.AddrPortFrom(p.places[workload.Sink].Address, 20000), LocalPorts: 1,
		})
		if err == nil {
			e.Close()
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(),
		"segments of 4000 bytes (valid: as many as fit the path's MTU): message too long") {
		t.Errorf("segments of 4000 bytes: %v", err)
	}
}
