package byhand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// small returns an opening of a workload with parameters, for one pair.
func small(name string, params map[string]string) *opening {
	return &opening{Workload: name, Params: params, Ports: []uint16{20000}, Each: 8, Length: int64(20 * time.Millisecond)}
}

// Each request is answered only in its turn. A request out of order is named in the error and ends its session; the
// next source is served.
func TestOrder(t *testing.T) {
	t.Parallel()
	sink, _, _ := serve(t, "127.0.0.1:0")
	all := map[string]request{
		doEcho: {Do: doEcho}, doOpen: {Do: doOpen, Open: small("quake3", nil)}, doReady: {Do: doReady},
		doPrepare: {Do: doPrepare, Trial: 1}, doGo: {Do: doGo, Trial: 1},
		doCollect: {Do: doCollect}, doProbe: {Do: doProbe}, "nosuch": {Do: "nosuch"}, "": {},
	}
	for _, tt := range []struct {
		before []string
		takes  []string
	}{
		{nil, []string{doEcho, doOpen}},
		{[]string{doEcho}, []string{doEcho, doOpen}},
		{[]string{doOpen}, []string{doReady}},
		{[]string{doOpen, doReady}, []string{doPrepare, doProbe}}, // a "go" here ended the whole sink
		{[]string{doOpen, doReady, doPrepare}, []string{doGo}},
		{[]string{doOpen, doReady, doPrepare, doGo}, []string{doCollect}},
		{[]string{doOpen, doReady, doPrepare, doGo, doCollect}, []string{doPrepare, doProbe}},
		{[]string{doOpen, doReady, doProbe}, nil},
	} {
		for name, r := range all {
			l := meet(t, sink)
			for _, b := range tt.before {
				if _, err := l.ask(all[b], 5*time.Second); err != nil {
					t.Fatalf("%v: %s: %v", tt.before, b, err)
				}
			}
			_, err := l.ask(r, 5*time.Second)
			right := false
			for _, takes := range tt.takes {
				right = right || takes == name
			}
			switch {
			case right && err != nil:
				t.Errorf("%v, %s: %v", tt.before, name, err)
			case !right && (err == nil ||
				!strings.Contains(err.Error(), fmt.Sprintf("request %q is out of order: this session takes ", name))):
				t.Errorf("%v, %s: %v, want an error that says that it is out of order", tt.before, name, err)
			}
			l.close()
		}
	}
	l := meet(t, sink)
	for _, r := range []request{all[doOpen], all[doReady], all[doPrepare]} {
		if _, err := l.ask(r, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.ask(request{Do: doGo, Trial: 2}, 5*time.Second)
	says(t, err, "trial 2 is out of order: trial 1 was prepared")
	l = meet(t, sink)
	for range mostEchoes {
		_, err = l.ask(all[doEcho], 5*time.Second)
	}
	if err != nil {
		t.Error(err)
	}
	_, err = l.ask(all[doEcho], 5*time.Second)
	says(t, err, fmt.Sprintf("echo %d of 0 bytes is out of order", mostEchoes+1))
	l = meet(t, sink)
	_, err = l.ask(request{Do: doEcho, Bytes: make([]byte, frameLimit/2)}, 5*time.Second)
	says(t, err, "no message of nettoll: it has")
	if _, err := Source(t.Context(), options(t, "udp-rr", sink, nil)); err != nil {
		t.Error(err)
	}
}

// A fault in a session is reported to its source, and to the user in one line. It ends only that session.
func TestFaults(t *testing.T) {
	testnet.NotInRace(t, "it takes more memory than the limit of a session")
	t.Parallel()
	sink, said, _ := serve(t, "127.0.0.1:0", func(s *Sink) { s.Memory = LeastMemory })
	for at, want := range map[string]string{
		"open":    "panic: a fault in an opening (byhand/faulty_linux_test.go:",
		"prepare": "panic: a fault between trials (byhand/faulty_linux_test.go:",
		"run":     "panic: a fault in a trial (byhand/faulty_linux_test.go:",
		"hoard":   "it needed more memory than the limit of a session, 192 MiB", "hang": "a trial did not end within 3s",
		"spin": "a trial did not end within 3s",
	} {
		t.Run(at, func(t *testing.T) {
			before := strings.Count(said.String(), want)
			o := options(t, "faulty", sink, map[string]string{"at": at})
			start := time.Now()
			_, err := Source(t.Context(), o)
			says(t, err, want)
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("named after %v", took)
			}
			for deadline := time.Now().Add(5 * time.Second); strings.Count(said.String(), want) == before &&
				time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
			if n := strings.Count(said.String(), want) - before; n != 1 || strings.Contains(said.String(), "goroutine") {
				t.Errorf("it is said %d times, want one line:\n%s", n, said)
			}
			if _, err := Source(t.Context(), options(t, "udp-rr", sink, nil)); err != nil {
				t.Errorf("the next source: %v", err)
			}
		})
	}
}

// The memory of an opening is counted before it is granted, for every workload, and released at the end of the session.
func TestMemory(t *testing.T) {
	testnet.NotInRace(t, "it takes more memory than the limit of a session")
	sink, _, _ := serve(t, "127.0.0.1:0", func(s *Sink) { s.Memory = 256 << 20 })
	for _, o := range []*opening{
		small("kv", map[string]string{"payload": "1MiB", "keys": "64"}), // with 64 pairs this took 6 GB
		small("kv", map[string]string{"payload": "64", "keys": "1000000"}),
		small("connections", map[string]string{"connections": "10000"}),
		small("udp-rr", map[string]string{"recv-buffer": "536870912"}),
		small("tcp-stream", map[string]string{"flows": "64", "send-buffer": "1MiB", "recv-buffer": "1MiB"}),
		small("http", map[string]string{"payload": "1MiB", "clients": "256"}),
	} {
		for len(o.Ports) < 4 {
			o.Ports = append(o.Ports, o.Ports[0]+uint16(8*len(o.Ports)))
		}
		l := meet(t, sink)
		_, err := l.ask(request{Do: doOpen, Open: o}, 5*time.Second)
		says(t, err, o.Workload, "with 4 pairs asks for", errMemory.Error()+", 256 MiB")
		l.close()
	}
	for range 4 { // 50 MB each
		if _, err := Source(t.Context(),
			options(t, "kv", sink, map[string]string{"payload": "64KiB", "keys": "256", "clients": "4"})); err != nil {
			t.Error(err)
		}
	}
}

// The data that the sockets of an opening can hold is counted before it is granted, and released at the end of the
// session. Buffers that the kernel sizes itself are limited to what is left, and the source is warned of that.
func TestSocketMemory(t *testing.T) {
	testnet.NotInRace(t, "it takes more memory than the limit of a session")
	const memory = 256 << 20 // as by default on a machine with 2 GiB
	sink, _, _ := serve(t, "127.0.0.1:0", func(s *Sink) { s.Memory = memory })
	for _, tt := range []struct {
		o    *opening
		want string
	}{
		{
			small("udp-rr", map[string]string{"recv-buffer": "32MiB", "send-buffer": "32MiB"}),
			"asks for 290 MiB of memory, more memory than the sink gives a session, 256 MiB (its --memory; hint: fewer pairs, " +
				"or smaller parameters): 128 MiB of it for data in 1 socket, for which 95 MiB is free",
		},
		{small("tcp-stream", map[string]string{"flows": "64", "recv-buffer": "1MiB"}), "for data in 64 sockets, for which"},
		{small("connections", map[string]string{"connections": "10000"}), "for data in 10000 sockets, for which"},
	} {
		l := meet(t, sink)
		_, err := l.ask(request{Do: doOpen, Open: tt.o}, 5*time.Second)
		says(t, err, tt.o.Workload, "with 1 pair asks for", errMemory.Error()+", 256 MiB", tt.want)
		l.close()
	}
	// The process of a session gets only what its sockets cannot hold.
	l := meet(t, sink)
	granted := map[string]string{"recv-buffer": "40MiB", "send-buffer": "1MiB"}
	if _, err := l.ask(request{Do: doOpen, Open: small("udp-rr", granted)}, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("Max data size %d %[1]d bytes", memory-82<<20)
	if got := childLimits(t); !strings.Contains(got, want) {
		t.Errorf("the limits of the session are %q, want %q", got, want)
	}
	l.close()
	for range 3 { // 80 MiB each
		_, err := Source(t.Context(), options(t, "udp-rr", sink, map[string]string{"recv-buffer": "40MiB"}))
		if err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"udp-rr", "udp-rate", "tcp-stream", "tcp-rr", "tcp-crr", "video", "burst", "dns"} {
		t.Run(name, func(t *testing.T) {
			o := options(t, name, sink, nil)
			o.Pairs, o.Trials = MostPairs, 1
			r, err := Source(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			warned := slices.ContainsFunc(r.Warnings, func(w string) bool {
				return strings.Contains(w, "each socket of the sink has a send buffer of at most")
			})
			if _, stream := o.Params["congestion"]; stream != warned {
				t.Errorf("warned of small buffers: %v, want %v: %q", warned, stream, r.Warnings)
			}
		})
	}
}

// A source cannot make a sink hold more connections than were counted for its clients.
func TestMoreConnections(t *testing.T) {
	sink, _, _ := serve(t, "127.0.0.1:0")
	for _, o := range []*opening{
		small("http", map[string]string{"clients": "1"}), small("kv", map[string]string{"clients": "1"}),
		small("dns", map[string]string{"transport": "tcp"}),
	} {
		l := meet(t, sink)
		a, err := l.ask(request{Do: doOpen, Open: o}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		const counted, more = 4, 3 // two for its client, and two
		var conns []net.Conn
		for range counted + more {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", a.Ports[0]))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conns = append(conns, conn)
		}
		for _, r := range []request{{Do: doReady}, {Do: doPrepare, Trial: 1}} {
			if _, err := l.ask(r, 5*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		held := 0
		for _, conn := range conns { // all have been accepted, so others are closed already
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				held++
			}
		}
		if held != counted {
			t.Errorf("%s holds %d connections, want %d", o.Workload, held, counted)
		}
		l.close()
	}
}

// childLimits returns the limits of the processes of this test (/proc/PID/limits), in single spaces.
func childLimits(t *testing.T) string {
	t.Helper()
	var text []string
	lists, _ := filepath.Glob("/proc/self/task/*/children") // an error means a wrong pattern
	for _, list := range lists {
		pids, _ := os.ReadFile(list) // the thread may have ended
		for pid := range strings.FieldsSeq(string(pids)) {
			limits, _ := os.ReadFile("/proc/" + pid + "/limits") // the process may have ended
			text = append(text, strings.Fields(string(limits))...)
		}
	}
	return strings.Join(text, " ")
}

// What somebody sends who has not been greeted takes little memory of the kernel: the buffer does not grow.
func TestGreetingBuffer(t *testing.T) {
	workloadtest.Loopback(t)
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	keep := &keeping{Listener: l, conns: make(chan *net.TCPConn, 1)}
	s := &Sink{Sessions: 1, PerAddress: 1, Say: func(string) {}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, keep) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := (<-keep.conns).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for deadline := time.Now().Add(5 * time.Second); size != doubled*lineBuffer && time.Now().Before(deadline); {
		if err := raw.Control(func(fd uintptr) {
			size, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if size != doubled*lineBuffer {
		t.Errorf("a receive buffer of %d bytes, want %d", size, doubled*lineBuffer)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// keeping also hands on the connections that it accepts.
type keeping struct {
	net.Listener
	conns chan *net.TCPConn
}

func (k *keeping) Accept() (net.Conn, error) {
	conn, err := k.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		k.conns <- tcp
	}
	return conn, err
}

// The sockets of a sink have no larger buffers than those that are counted, for every workload.
func TestBuffersFit(t *testing.T) {
	for _, load := range catalogue.New().Workloads {
		d := load.Describe()
		params, err := d.Resolve(nil)
		if err != nil || d.AcrossTrust(params) != nil || d.Alone {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			const each = 100 << 10
			at := netip.MustParseAddr("127.0.0.1")
			s := session{terms: terms{Memory: ownMemory + d.SinkMemory(params) + each*d.SinkSockets(params)}}
			g, err := s.afford(d, params, 1, at)
			if err != nil {
				t.Fatal(err)
			}
			if g.limits == nil || g.data > each*d.SinkSockets(params) {
				t.Fatalf("%d bytes and the limits %v are given, and %d are free", g.data, g.limits, each*d.SinkSockets(params))
			}
			first, err := freePorts(at, 20000, sinkPorts)
			if err != nil {
				t.Fatal(err)
			}
			local := netip.AddrPortFrom(at, uint16(first))
			e, err := load.Open(workload.Spec{
				Workload: d.Name, Params: g.params, Side: workload.Sink, Local: local, LocalPorts: sinkPorts,
				Remote: netip.AddrPortFrom(at, 30000), RemotePorts: 1024, OwnClock: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if r, ok := e.(workload.Readier); ok {
				for range d.SinkSockets(params) {
					conn, err := net.Dial("tcp", local.String())
					if err != nil {
						break // it accepts none
					}
					defer conn.Close()
				}
				if err := r.Ready(5 * time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if f, err := e.Facts(); err != nil || f.SendBuffer+f.RecvBuffer > each {
				t.Errorf("the buffers hold %d and %d bytes, and %d are counted (%v)", f.SendBuffer, f.RecvBuffer, each, err)
			}
		})
	}
}

// The memory of a sink in its description is at least what opening it takes.
func TestMemoryIsCounted(t *testing.T) {
	for _, load := range catalogue.New().Workloads {
		d := load.Describe()
		for _, given := range extremes(d) {
			params, err := d.Resolve(given)
			if err != nil || d.AcrossTrust(params) != nil || d.Alone {
				continue
			}
			want := d.SinkMemory(params)
			if want > 1<<30 {
				continue
			}
			t.Run(d.ID(params), func(t *testing.T) {
				at, err := freePorts(netip.MustParseAddr("127.0.0.1"), 20000, sinkPorts)
				if err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				local := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(at))
				e, err := load.Open(workload.Spec{
					Workload: d.Name, Params: params, Side: workload.Sink, Local: local, LocalPorts: sinkPorts,
					Remote: netip.AddrPortFrom(local.Addr(), 30000), RemotePorts: 1024, OwnClock: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				runtime.ReadMemStats(&after)
				// TotalAlloc counts everything: a session collects no garbage when it opens.
				if took := int64(after.TotalAlloc - before.TotalAlloc); took > want {
					t.Errorf("it took %d bytes, and %d are counted", took, want)
				}
			})
		}
	}
}

// extremes returns parameter sets of a workload: its defaults, and each parameter at its largest value.
func extremes(d workload.Description) []map[string]string {
	list := []map[string]string{{}}
	for _, p := range d.Params {
		for _, value := range append([]string{"1MiB", "65507", "100000", "10000", "1024", "1000", "128", "100", "64", "8"},
			p.Values...) {
			given := map[string]string{p.Name: value}
			if _, err := d.Resolve(given); err != nil {
				continue
			}
			list = append(list, given)
			if len(p.Values) == 0 {
				break // the largest
			}
		}
	}
	return list
}

// Silent connections do not keep a source out, however many there are.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	sink, said, _ := serve(t, "127.0.0.1:0")
	for i := range 2 * mostStrangers {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 3, byte(1+i%2))}}
		conn, err := dialer.Dial("tcp", sink)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	watch, start := witness.Begin(t), time.Now()
	if _, err := Source(t.Context(), options(t, "udp-rr", sink, nil)); err != nil {
		t.Fatal(err)
	}
	took, seen := time.Since(start), watch.Seen(t)
	if took > answerLimit+max(seen.Waited, seen.Excuse()) {
		t.Errorf("a source was served after %v (%v)", took, seen)
	}
	said.until(t, "that have not sent a greeting")
	said.until(t, "has sent nothing for 5s")
	if n := strings.Count(said.String(), "\n"); n > 4*mostRefusals {
		t.Errorf("the user is told %d lines", n)
	}
}

// A source that takes a session slowly, in small steps, is ended after a few seconds; then the next one is served.
func TestSlowSource(t *testing.T) {
	t.Parallel()
	sink, said, _ := serve(t, "127.0.0.1:0")
	slow := meet(t, sink)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for { // an echo a second
			if _, err := slow.ask(request{Do: doEcho}, time.Second); err != nil {
				return
			}
			select {
			case <-time.After(time.Second):
			case <-stop:
				return
			}
		}
	}()
	start := time.Now()
	if _, err := Source(t.Context(), options(t, "udp-rr", sink, nil)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > openLimit+5*time.Second {
		t.Errorf("a source was served after %v", took)
	}
	said.until(t, `made no progress for 10s: its next request was to be "echo", "open" or "end"`)
}

// A source that waits receives the number of sources before it. A limited number of sources with one address may wait,
// and the others are refused. The place of a source that has left is free.
func TestQueue(t *testing.T) {
	t.Parallel()
	sink, _, _ := serve(t, "127.0.0.1:0")
	type source struct {
		leave  context.CancelFunc
		places chan int
		end    chan error
	}
	run := func(trials int) source {
		ctx, cancel := context.WithCancel(t.Context())
		s := source{cancel, make(chan int, 100), make(chan error, 1)}
		o := options(t, "udp-rr", sink, nil)
		o.Trials, o.Waiting, o.Begun = trials, func(before int) { s.places <- before }, func(Session) { s.places <- 0 }
		go func() {
			_, err := Source(ctx, o)
			s.end <- err
		}()
		return s
	}
	until := func(s source, place int) {
		t.Helper()
		for {
			select {
			case got := <-s.places:
				if got == place {
					return
				}
			case err := <-s.end:
				t.Fatalf("a source that %d come before: %v", place, err)
			case <-time.After(20 * time.Second):
				t.Fatalf("a source was not told that %d come first", place)
			}
		}
	}
	served := run(100_000)
	until(served, 0)
	var waiting []source
	for i := range mostAlike {
		waiting = append(waiting, run(2))
		until(waiting[i], 1+i)
	}
	says(t, <-run(2).end, "refuses: 4 sources of 127.0.0.1 wait already")
	waiting[0].leave()
	if err := <-waiting[0].end; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	until(waiting[mostAlike-1], mostAlike-1) // it has moved up
	served.leave()
	for _, s := range waiting[1:] {
		until(s, 0)
		if err := <-s.end; err != nil {
			t.Error(err)
		}
	}
}

// Several sources are served at once if the sink is configured for that, by default only one of each address, from
// ports of their own.
func TestSessions(t *testing.T) {
	sink, _, _ := serve(t, "127.0.0.1:0", func(s *Sink) { s.Sessions = 2 })
	first := meet(t, sink)
	a, err := first.ask(request{Do: doOpen, Open: small("udp-rr", nil)}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", sink)
	if err != nil {
		t.Fatal(err)
	}
	other := line{conn: conn, peer: "the sink"}
	defer other.close()
	for _, l := range []line{dial(t, sink), other} { // the address of the first one has its share
		if err := l.say(hello{Nettoll: Protocol, Version: "v1"}); err != nil {
			t.Fatal(err)
		}
		var h hello
		err := l.hear(&h, 5*time.Second)
		if err != nil || (h.Place == 0) != (l == other) {
			t.Errorf("%+v, %v", h, err)
		}
	}
	b, err := other.ask(request{Do: doOpen, Open: small("udp-rr", nil)}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddrPort(sink).Port()
	seat := func(list []uint16) int { // other programs may have its first ports
		return (int(list[0]) - int(own) - 1) / (MostPairs * sinkPorts)
	}
	if seat(a.Ports) != 0 || seat(b.Ports) != 1 {
		t.Errorf("port %d: ports %v and %v", own, a.Ports, b.Ports)
	}
}

// As many sources of one address are served at once as the sink is configured for.
func TestPerAddress(t *testing.T) {
	sink, _, _ := serve(t, "127.0.0.1:0", func(s *Sink) { s.Sessions, s.PerAddress = 3, 2 })
	for i := range 3 {
		l := dial(t, sink)
		if err := l.say(hello{Nettoll: Protocol, Version: "v1"}); err != nil {
			t.Fatal(err)
		}
		var h hello
		if err := l.hear(&h, 5*time.Second); err != nil || (h.Place == 0) != (i < 2) {
			t.Errorf("source %d: %+v, %v", i, h, err)
		}
	}
}

// Who measures nothing does not end a sink that serves one source.
func TestOnce(t *testing.T) {
	t.Parallel()
	sink, said, _ := serve(t, "127.0.0.1:0", func(s *Sink) { s.Once = true })
	for name, play := range map[string]func(l line) error{
		"silent": func(line) error { return nil },
		"hello":  func(l line) error { return l.say(hello{Nettoll: Protocol, Version: "v1"}) },
		"opens": func(l line) error {
			if err := l.say(hello{Nettoll: Protocol, Version: "v1"}); err != nil {
				return err
			}
			if err := l.hear(&hello{}, 5*time.Second); err != nil {
				return err
			}
			_, err := l.ask(request{Do: doOpen, Open: small("udp-rr", nil)}, 5*time.Second)
			return err
		},
		"out of order": func(l line) error {
			if err := l.say(hello{Nettoll: Protocol, Version: "v1"}); err != nil {
				return err
			}
			return l.say(request{Do: doReady})
		},
	} {
		l := dial(t, sink)
		if err := play(l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l.close()
	}
	if _, err := Source(t.Context(), options(t, "udp-rr", sink, nil)); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", sink)
		if err != nil {
			break
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatalf("the sink goes on after the source:\n%s", said)
		}
	}
}

// If others wait, a source is served for its time, and keeps what it has measured.
func TestTime(t *testing.T) {
	t.Parallel()
	sink, _, _ := serve(t, "127.0.0.1:0", func(s *Sink) { s.Time = time.Second })
	o := options(t, "udp-rr", sink, nil)
	o.Trials = 10_000
	type end struct {
		r   *Result
		err error
	}
	ends := make(chan end, 1)
	begun := make(chan struct{})
	o.Begun = func(Session) { close(begun) }
	go func() {
		r, err := Source(t.Context(), o)
		ends <- end{r, err}
	}()
	<-begun
	if _, err := Source(t.Context(), options(t, "udp-rr", sink, nil)); err != nil {
		t.Fatal(err)
	}
	e := <-ends
	says(t, e.err, "other sources wait, and this one was served for 1s")
	if e.r == nil || len(e.r.Intervals) == 0 {
		t.Errorf("what was measured is not there: %+v", e.r)
	}
}

// A token is never shown, and a source that does not know it is not served. The sink does not ask a source that is not
// allowed.
func TestToken(t *testing.T) {
	t.Parallel()
	const token = "correct horse battery"
	sink, _, _ := serve(t, "127.0.0.1:0", func(s *Sink) {
		s.Token, s.Allow = token, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	l := dial(t, sink)
	if err := l.say(hello{Nettoll: Protocol}); err != nil {
		t.Fatal(err)
	}
	var first, second hello
	if err := l.hear(&first, 5*time.Second); err != nil || len(first.Nonce) != nonceSize {
		t.Fatalf("%+v, %v", first, err)
	}
	proof := prove(token, first.Nonce)
	l = dial(t, sink) // a proof that somebody has overheard
	if err := l.say(hello{Nettoll: Protocol}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.hear(&second, 5*time.Second), l.say(hello{Nettoll: Protocol, Proof: proof})); err != nil {
		t.Fatal(err)
	}
	if err := l.hear(&second, 5*time.Second); err != nil || second.Refused != errToken.Error() {
		t.Errorf("%+v, %v", second, err)
	}
	o := options(t, "udp-rr", sink, nil)
	o.Token = token
	if _, err := Source(t.Context(), o); err != nil {
		t.Error(err)
	}
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", sink)
	if err != nil {
		t.Fatal(err)
	}
	other := line{conn: conn, peer: "the sink"}
	defer other.close()
	var h hello
	if err := errors.Join(other.say(hello{Nettoll: Protocol}), other.hear(&h, 5*time.Second)); err != nil ||
		!strings.Contains(h.Refused, "127.0.0.2 is not among the addresses that it serves") {
		t.Errorf("%+v, %v", h, err)
	}
}

// Refused connections cannot fill the log: those that are not reported are counted.
func TestFewRefusalsAreTold(t *testing.T) {
	var r refusals
	now := time.Now()
	told := 0
	for range 1000 {
		if r.note("away", now) != "" {
			told++
		}
	}
	if told != mostRefusals {
		t.Errorf("told %d of 1000", told)
	}
	if got := r.note("away", now.Add(time.Second)); got != "away (and 980 more were turned away before)" {
		t.Errorf("a second later: %q", got)
	}
	if got := r.note("away", now.Add(time.Second)); got != "" {
		t.Errorf("and once more: %q", got)
	}
}
