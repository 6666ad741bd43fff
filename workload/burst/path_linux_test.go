package burst_test

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/proof/busy"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/burst"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// newPath makes a veth pair between two namespaces that carries only what a test sends. It returns the places of both
// ends, and a function that reads the frames and bytes that the source's link has sent and the sink's link has
// received.
func newPath(t *testing.T) (map[workload.Side]workloadtest.Where, func(workload.Side) (frames, bytes uint64)) {
	t.Helper()
	places := map[workload.Side]workloadtest.Where{}
	links := map[workload.Side]*netlink.Handle{}
	machines := map[workload.Side]*testnet.Machine{workload.Source: testnet.New(t), workload.Sink: testnet.New(t)}
	for i, side := range []workload.Side{workload.Source, workload.Sink} {
		m, at := machines[side], netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		places[side] = workloadtest.Where{Address: at, Do: m.Do}
		err := m.Do(func() (err error) {
			if err := sysctl.Write("net.ipv6.conf.default.disable_ipv6", "1"); err != nil {
				return err
			}
			if links[side], err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
				return err
			}
			h, err := link.Open()
			if err != nil {
				return err
			}
			defer h.Close()
			if side == workload.Source {
				err := machines[workload.Sink].Do(func() error { return sysctl.Write("net.ipv6.conf.default.disable_ipv6", "1") })
				if err != nil {
					return err
				}
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
			return errors.Join(h.AddAddress(l.Index, netip.PrefixFrom(at, 24)), h.SetUp(l.Index, true))
		})
		testnet.Skip(t, err)
		t.Cleanup(links[side].Close)
	}
	return places, func(side workload.Side) (frames, bytes uint64) {
		l, err := links[side].LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		s := l.Attrs().Statistics
		if side == workload.Source {
			return s.TxPackets, s.TxBytes
		}
		return s.RxPackets, s.RxBytes
	}
}

// The ends report what the links between them have carried: every datagram is a frame, received is sent minus lost, and
// goodput is at most the bytes of the frames.
func TestPhysics(t *testing.T) {
	const payload, headers = 653, 14 + 20 + 8
	places, carried := newPath(t)
	r := workloadtest.NewRig(t, burst.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 250 * time.Millisecond, Where: places, Given: map[string]string{
			"rate": "4Mbit/s", "on": "100ms", "off": "25ms", "flows": "4",
		},
	})
	r.Trial(t) // the neighbours are resolved
	lostSince := busy.Losses()
	for range 3 {
		sentFrames, _ := carried(workload.Source)
		cameFrames, cameBytes := carried(workload.Sink)
		trial, result := r.Trial(t)
		after, _ := carried(workload.Source)
		sentFrames = after - sentFrames
		after, bytes := carried(workload.Sink)
		cameFrames, cameBytes = after-cameFrames, bytes-cameBytes
		source, sink := trial.Sources[0], trial.Sinks[0]
		extra := sentFrames - uint64(source.Total) // end markers
		if source.Total == 0 || uint64(source.Total) > sentFrames || extra > 60 {
			t.Errorf("%d datagrams were sent, and %d frames%s", source.Total, sentFrames, lostSince())
		}
		if uint64(sink.Total) > cameFrames || uint64(sink.Total)*(payload+headers) > cameBytes {
			t.Errorf("%d datagrams came, and %d frames of %d bytes together", sink.Total, cameFrames, cameBytes)
		}
		lost := result.Metrics["loss"] * float64(source.Sent)
		if math.Abs(float64(source.Sent-sink.Received)-lost) > 1e-6 || sink.Received+sink.Late > source.Total {
			t.Errorf("sent %d, received %d, late %d, lost %g", source.Sent, sink.Received, sink.Late, lost)
		}
		if seconds := trial.Window.Seconds(); result.Metrics["goodput"]*seconds > 8*float64(cameBytes) ||
			result.Metrics["goodput"] != 8*payload*float64(sink.Received)/seconds {
			t.Errorf("goodput %g of %d bytes in %g s", result.Metrics["goodput"], cameBytes, seconds)
		}
		var recorded int64
		if h := trial.Histograms[traffic.OneWay]; h != nil { // nil: nothing has come
			recorded = h.TotalCount()
		}
		if len(trial.Sinks) != 1 || sink.Counts[flows.CountFlows] != 4 || recorded != sink.Received-4 {
			t.Errorf("%d of %d one-way times recorded, of %d flows: want all but the first of each flow", recorded,
				sink.Received, sink.Counts[flows.CountFlows])
		}
	}
}

// A burst offers its rate to within 1 %, while it lasts, and nothing after it: by default 96 datagrams of 653 bytes in
// a second.
func TestRate(t *testing.T) {
	for _, tt := range []struct {
		given  map[string]string
		length time.Duration
		on     time.Duration
		rate   float64
	}{
		{map[string]string{}, 2 * time.Second, time.Second, 500e3},
		{
			map[string]string{"rate": "20Mbit/s", "on": "200ms", "off": "300ms", "flows": "3"},
			500 * time.Millisecond,
			200 * time.Millisecond, 20e6,
		},
	} {
		r := workloadtest.NewRig(t, burst.Workload{}, workloadtest.Options{Pairs: 1, Length: tt.length, Given: tt.given})
		// if a machine takes CPUs away for longer than the pause, datagrams are sent later, or never
		witness.Until(t, workloadtest.Borne(), func() error {
			trial, _ := r.Trial(t)
			source := trial.Sources[0]
			got := 8 * 653 * float64(source.Sent) / tt.on.Seconds()
			if math.Abs(got/tt.rate-1) < 0.01 && source.Unsent == 0 && source.Sent == trial.Sinks[0].Received {
				return nil
			}
			return fmt.Errorf("%v: %.0f bit/s were offered: %+v, %+v", tt.given, got, source, trial.Sinks[0])
		})
	}
}
