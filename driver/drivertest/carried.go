package drivertest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/workload"
)

// counters are the counters of a container's interface.
type counters struct{ rxBytes, txPackets int64 }

// carried reads the counters of a side's interface (proc_pid_net(5), dev).
func (r *rig) carried(t *testing.T, side workload.Side) (c counters) {
	t.Helper()
	if err := r.do(side, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
			fields := strings.Fields(rest)
			if name != "eth0" || len(fields) < 10 {
				continue
			}
			if c.rxBytes, err = strconv.ParseInt(fields[0], 10, 64); err != nil {
				return err
			}
			c.txPackets, err = strconv.ParseInt(fields[9], 10, 64)
			return err
		}
		return fmt.Errorf("no eth0 in %q", text)
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// An interface carries more than a driver counts: connections that control the test, warm-up, neighbours, and each
// packet's headers. Headers are 66 bytes of Ethernet, IPv4 and TCP with timestamps (86 with IPv6) for each 1448 bytes,
// or for each message if it is shorter. They are many times less if the kernel joins segments.
const (
	othersShare   = 0.02
	othersPackets = 2000 // for each pair: sockperf sends some before it begins
	headers       = 86.
	fullSegment   = 1448
	headersMore   = 1.2 // because segments may not be full
	othersBytes   = 1 << 20

	packetsOfConnection = 6 // packets of its source: SYN, ACK, request, ACK of the response, FIN, ACK of a FIN
)

// agrees checks that a driver's counts of a trial agree with those of its containers' interfaces.
func (r *rig) agrees(t *testing.T, trial workload.Trial, source, sink [2]counters, untold float64) {
	t.Helper()
	pairs := float64(len(trial.Sources))
	if r.Load.Describe().Name == "tcp-stream" {
		most := 1 + headersMore*headers/float64(min(fullSegment, trial.Params.Size("message")))
		for side, c := range map[workload.Side][2]counters{workload.Source: source, workload.Sink: sink} {
			samples := trial.Sinks
			if side == workload.Source {
				samples = trial.Sources
			}
			var bytes int64
			for _, s := range samples {
				bytes += s.Bytes
			}
			if got := c[1].rxBytes - c[0].rxBytes; bytes > 0 &&
				(got < bytes || float64(got) > float64(bytes)*most+othersBytes*pairs) {
				t.Errorf("the %s says that %d bytes came, its interface %d", side, bytes, got)
			}
		}
		return
	}
	var total int64
	for _, s := range trial.Sources {
		total += s.Total
	}
	each := 1.0
	if r.Load.Describe().Name == "tcp-crr" {
		each = packetsOfConnection
	}
	least := total
	if trial.Params["transport"] == "tcp" { // a segment holds several messages of a stream
		least = 1
	}
	if got := source[1].txPackets - source[0].txPackets; got < least ||
		float64(got) > float64(total)*each*(1+othersShare+untold)+othersPackets*pairs {
		t.Errorf("the source says that it sent %d packets, its interface %d", total, got)
	}
}
