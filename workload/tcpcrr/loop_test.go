package tcpcrr

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

const (
	sourcePort, sinkPort = 8000, 7000

	// length is the length of a trial.
	length = 100 * time.Millisecond
)

// pair is two endpoints in a namespace of their own, with a loopback link and another address, for which
// net.ipv4.tcp_tw_reuse, with its default, allows nothing.
type pair struct {
	t            *testing.T
	machine      *testnet.Machine
	threads      []witness.Thread // of the sink and of the source
	source, sink traffic.Endpoint
	trial        uint64
}

// open opens a pair whose source and sink have these numbers of ports.
func open(t *testing.T, address string, sources, sinks int, given map[string]string) *pair {
	t.Helper()
	p := &pair{t: t, machine: testnet.New(t), threads: witness.Threads(t, 2)}
	// A thread in a loop never gives its P back, and a garbage collection would wait for it (see the worker).
	before, collect := runtime.GOMAXPROCS(2+2), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(collect)
	})
	at := netip.MustParseAddr(address)
	p.do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		if err := h.SetUp(lo.Index, true); err != nil || at.IsLoopback() {
			return err
		}
		return h.AddAddress(lo.Index, netip.PrefixFrom(at, at.BitLen()))
	})
	workloadtest.Settled(t, workloadtest.Where{Address: at, Do: p.machine.Do})
	params, err := Workload{}.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	s := workload.Spec{
		Params: params, Side: workload.Sink, Local: netip.AddrPortFrom(at, sinkPort),
		Remote:     netip.AddrPortFrom(at, sourcePort),
		LocalPorts: sinks, RemotePorts: sources,
	}
	p.do(func() (err error) {
		p.sink, err = Workload{}.Open(s)
		return err
	})
	t.Cleanup(p.sink.Close)
	s.Side, s.Local, s.Remote, s.LocalPorts, s.RemotePorts = workload.Source, s.Remote, s.Local, sources, sinks
	p.do(func() (err error) {
		p.source, err = Workload{}.Open(s)
		return err
	})
	t.Cleanup(p.source.Close)
	return p
}

func (p *pair) do(f func() error) {
	p.t.Helper()
	if err := p.machine.Do(f); err != nil {
		p.t.Fatal(err)
	}
}

// run runs a trial. Its threads are not in the namespace.
func (p *pair) run() (source, sink traffic.Sample) {
	p.trial++
	w := traffic.Window{Open: clock.Now()}
	w.Start, w.Close = w.Open, w.Open+int64(length)
	for _, e := range []traffic.Endpoint{p.sink, p.source} {
		e.Prepare(p.trial)
	}
	sank := p.threads[0](func() { traffic.Drive(p.sink, p.trial, w) })
	<-p.threads[1](func() { traffic.Drive(p.source, p.trial, w) })
	<-sank
	for _, e := range []traffic.Endpoint{p.sink, p.source} {
		e.(traffic.Collector).Collect()
	}
	return *p.source.Sample(), *p.sink.Sample()
}

// shut makes a sink stop listening.
func shut(e traffic.Endpoint) { e.(*sink).listeners[0].Shutdown() }

// complete runs a trial that is drained.
func (p *pair) complete() (source, sink traffic.Sample) {
	p.t.Helper()
	witness.Until(p.t, workloadtest.Borne(), func() error {
		source, sink = p.run()
		if source.Failure+sink.Failure+source.Doubt+sink.Doubt != "" {
			return fmt.Errorf("not drained: %q %q, %q %q", source.Failure, source.Doubt, sink.Failure, sink.Doubt)
		}
		if source.Received != source.Sent || source.Total != sink.Total || source.Sent == 0 {
			p.t.Errorf("a trial that was drained: %+v, %+v", source, sink)
		}
		return nil
	})
	return source, sink
}

// Pairs of ports are reused within a trial, and no connection waits for an old one, whichever side has closed it.
func TestPortsComeAgain(t *testing.T) {
	for _, address := range []string{"198.18.0.1", "fd00:198:18::1"} {
		for _, closes := range []string{"sink", "source"} {
			for _, ports := range []struct{ sources, sinks int }{{50, 3}, {200, 1}, {1, 1}, {1, 8}} {
				t.Run(fmt.Sprintf("%s %s %d %d", address, closes, ports.sources, ports.sinks), func(t *testing.T) {
					p := open(t, address, ports.sources, ports.sinks, map[string]string{"closes": closes})
					source, _ := p.complete()
					if ports.sources > 1 && source.Total < int64(2*ports.sources*ports.sinks) {
						source, _ = p.complete()
					}
					if source.Counts[countBusy] > 0 {
						t.Errorf("%d ports of %d were busy in %d transactions", source.Counts[countBusy], ports.sources, source.Total)
					}
					if longest := p.source.Recorders()[traffic.Connect].Max; longest > int64(200*time.Millisecond) {
						t.Errorf("a connection took %v", time.Duration(longest))
					}
				})
			}
		}
	}
}

// All modes work on loopback.
func TestWays(t *testing.T) {
	for _, given := range []map[string]string{
		{"payload": "100", "response": "200"},
		{"payload": "200000", "response": "1"},
		{"payload": "1", "response": "200000", "closes": "source"},
		{"rate": "2k/s", "arrivals": "poisson", "sizes": "exponential", "payload": "2000"},
		{"rate": "2k/s", "closes": "source", "ports": "1", "dscp": "10", "congestion": "reno", "recv-buffer": "64KiB"},
	} {
		t.Run(fmt.Sprint(given), func(t *testing.T) { open(t, "127.0.0.1", 100, 8, given).complete() })
	}
}

// Without timestamps, a port from which the source has closed a connection is blocked for a minute: others are tried,
// and when there are none left, the trial reports that.
func TestPortsRunOut(t *testing.T) {
	p := open(t, "198.18.0.1", 20, 2, map[string]string{"closes": "source"})
	p.do(func() error { return sysctl.Write("net.ipv4.tcp_timestamps", "0") })
	source, _ := p.run()
	if source.Failure != "bind: every local port has a connection that has not ended (20)" || source.Total > 41 {
		t.Errorf("%d connections, then %q", source.Total, source.Failure)
	}
	if source.Counts[countBusy] < 20 {
		t.Errorf("%d ports were busy", source.Counts[countBusy])
	}
	p.do(func() error { return sysctl.Write("net.ipv4.tcp_timestamps", "1") })
}

// A port that another program uses is skipped.
func TestPortTaken(t *testing.T) {
	p := open(t, "198.18.0.1", 10, 1, nil)
	p.do(func() error {
		taken, err := sock.Stream(netip.MustParseAddrPort("198.18.0.1:8003"), "")
		if err == nil {
			err = taken.Listen()
			t.Cleanup(taken.Close)
		}
		return err
	})
	if source, _ := p.complete(); source.Counts[countBusy] < source.Total/10-1 {
		t.Errorf("one of ten ports is taken, and %d were busy in %d transactions", source.Counts[countBusy], source.Total)
	}
}

// Each reason of a failed transaction is named. When the reason is gone, transactions work again.
func TestFaults(t *testing.T) {
	check := func(who string, s traffic.Sample, texts ...string) error {
		for _, text := range texts {
			if strings.Contains(s.Failure, text) {
				return nil
			}
		}
		return fmt.Errorf("%s: %q (%q), want one of %q", who, s.Failure, s.Doubt, texts)
	}
	want := func(t *testing.T, who string, s traffic.Sample, texts ...string) {
		t.Helper()
		if err := check(who, s, texts...); err != nil {
			t.Error(err)
		}
	}
	t.Run("sink absent", func(t *testing.T) {
		p := open(t, "127.0.0.1", 10, 1, nil)
		shut(p.sink)
		source, sink := p.run()
		want(t, "source", source, "connect: connection refused")
		want(t, "sink", sink, "accept: invalid argument")
		if source.Span > int64(length) {
			t.Errorf("it was known after %v", time.Duration(source.Span))
		}
	})
	t.Run("sink dies", func(t *testing.T) {
		// On a busy machine it may die after the trial is over.
		witness.Until(t, workloadtest.Borne(), func() error {
			p := open(t, "127.0.0.1", 10, 1, nil)
			p.complete()
			dead := make(chan struct{})
			time.AfterFunc(length/2, func() {
				shut(p.sink)
				close(dead)
			})
			source, sink := p.run()
			<-dead
			return errors.Join(
				check("source", source, "connect: connection refused", "connection reset", "the sink closed the connection"),
				check("sink", sink, "accept: invalid argument"))
		})
	})
	t.Run("source silent", func(t *testing.T) {
		p := open(t, "127.0.0.1", 10, 1, nil)
		src := p.source.(*source)
		src.remotes[0].SetPort(9) // nobody listens there
		source, sink := p.run()
		want(t, "source", source, "connect: connection refused")
		if sink.Doubt != undrained || sink.Span > int64(length+25*traffic.DrainLimit) {
			t.Errorf("sink: %+v", sink)
		}
		src.remotes[0].SetPort(sinkPort)
		p.complete()
	})
	t.Run("no descriptors", func(t *testing.T) {
		p := open(t, "127.0.0.1", 10, 1, nil)
		for few := range 3 { // which call fails depends on the order: a sink in accept4(2) already has one
			testnet.FewDescriptors(t, few, func() {
				source, sink := p.run()
				if !strings.Contains(source.Failure+sink.Failure, "too many open files") {
					t.Errorf("%d descriptors: source %q, sink %q", few, source.Failure, sink.Failure)
				}
			})
			p.complete()
		}
	})
	t.Run("of another trial", func(t *testing.T) {
		p := open(t, "127.0.0.1", 10, 1, nil)
		stray := func() {
			p.do(func() error {
				s, err := sock.Stream(netip.MustParseAddrPort("127.0.0.1:0"), "")
				if err != nil {
					return err
				}
				t.Cleanup(s.Close)
				b := mark(p.trial+5, false)
				if err := s.Connect(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), sinkPort), time.Second); err != nil {
					return err
				}
				if _, errno := s.Send(&b, 1, sock.NoSignal); errno != 0 {
					return errno
				}
				return nil
			})
		}
		stray() // before a trial
		if _, sink := p.complete(); sink.Late == 0 && p.trial == 1 {
			t.Error("what was left of another trial is not counted")
		}
		done := make(chan struct{})
		time.AfterFunc(length/2, func() { // in the middle of one
			stray()
			close(done)
		})
		p.run()
		<-done
		p.complete()
	})
}
