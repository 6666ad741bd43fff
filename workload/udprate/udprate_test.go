package udprate_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, udprate.Workload{},
		map[string]string{},
		map[string]string{"mode": "segmented", "flows": "2"},
		map[string]string{
			"rate": "20k/s", "mode": "batched", "flows": "3", "payload": "1024", "arrivals": "poisson",
			"sizes": "normal",
		},
		map[string]string{"search": "no-drop"},
	)
}

// The sink's count equals the number that the kernel reports as delivered in the sink's namespace, and the source's
// count equals the number sent from its own: all datagrams, the end markers and their answers.
func TestKernelAgrees(t *testing.T) {
	m := testnet.New(t)
	var kernel *host.Kernel
	if err := m.Do(func() (err error) {
		kernel, err = host.NewKernel(host.KernelConfig{Dir: m.Dir})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var stack host.Stack
	t.Cleanup(func() {
		if err := stack.Undo(context.Background(), kernel); err != nil {
			t.Error(err)
		}
		if err := kernel.Close(); err != nil {
			t.Error(err)
		}
	})
	where := map[workload.Side]workloadtest.Where{}
	for side, address := range map[workload.Side]string{workload.Source: "10.0.0.1", workload.Sink: "10.0.0.2"} {
		where[side] = workloadtest.Where{
			Address: netip.MustParseAddr(address),
			Do:      func(f func() error) error { return kernel.Do(string(side), f) },
		}
	}
	if err := stack.Apply(t.Context(), kernel, host.Plan{Steps: []host.Step{
		host.Namespace{Name: "source"},
		host.Namespace{Name: "sink"},
		host.Veth{
			NS: "source", Name: "eth0", Addresses: []string{"10.0.0.1/24"},
			PeerNS: "sink", PeerName: "eth0", PeerAddresses: []string{"10.0.0.2/24"},
		},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := stack.Verify(t.Context(), kernel); err != nil {
		t.Fatal(err)
	}
	r := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 100 * time.Millisecond, Where: where,
	})
	for range 5 {
		sunk, sent := datagrams(t, where[workload.Sink]), datagrams(t, where[workload.Source])
		trial, result := r.Trial(t)
		sunk, sent = datagrams(t, where[workload.Sink]).less(sunk), datagrams(t, where[workload.Source]).less(sent)
		source, sink := trial.Sources[0], trial.Sinks[0]
		// In addition to what it counts, a sink receives the end marker, if that arrives in time. Late datagrams are
		// from the previous trial.
		if markers := sunk.in - sink.Total - sink.Late; markers < 0 || markers > 1 {
			t.Errorf("the kernel handed out %d datagrams, the sink counts %d and %d late ones", sunk.in, sink.Total, sink.Late)
		}
		// The source sends a marker every millisecond until one is answered or the drain is over.
		const most = 21
		if markers := sent.out - source.Total; markers < 1 || markers > most {
			t.Errorf("the kernel sent %d datagrams, the source counts %d", sent.out, source.Total)
		}
		// Before the marker, a sink receives everything in its buffer: what is missing then did not fit.
		if lost := source.Total - sink.Total; sink.Doubt == "" && (lost > sunk.full || lost < sunk.full-most) {
			t.Errorf("%d of %d datagrams are lost; the kernel dropped %d at the full buffer", lost, source.Total, sunk.full)
		}
		if got := result.Metrics["duplicates"] + result.Metrics["reordering"]; got != 0 {
			t.Errorf("duplicates and reordering of a veth pair: %g", got)
		}
	}
}

// udp holds the kernel's counters of a namespace (proc_pid_net(5), snmp).
type udp struct{ in, out, full int64 }

func (u udp) less(v udp) udp { return udp{u.in - v.in, u.out - v.out, u.full - v.full} }

func datagrams(t *testing.T, where workloadtest.Where) (u udp) {
	t.Helper()
	err := where.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		m := regexp.MustCompile(`(?m)^Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors .*\nUdp: (\d+) \d+ \d+ (\d+) (\d+) `).FindSubmatch(text)
		if m == nil {
			return fmt.Errorf("no datagrams in %q", text)
		}
		for i, to := range []*int64{&u.in, &u.out, &u.full} {
			if *to, err = strconv.ParseInt(string(m[i+1]), 10, 64); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}
