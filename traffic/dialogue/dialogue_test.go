package dialogue_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) {
	// a thread in a loop never gives its P back, and a garbage collection would stop all others until it ends (see the
	// worker)
	runtime.GOMAXPROCS(8)
	debug.SetGCPercent(-1)
	testnet.Main(m)
}

// The protocol of these tests: a request is a line "N SIZE\n", and its answer a line "N SIZE\n" followed by SIZE bytes.
// The request "bye\n" is answered by "bye\n", "no\n" by "-no\n".
func asks(size int) dialogue.Asks {
	return dialogue.Asks{Asker: &lines{size: size}, Head: 64}
}

type lines struct {
	size int
	line []byte
}

func (l *lines) Request(number uint64) []byte {
	l.line = fmt.Appendf(l.line[:0], "%d %d\n", number, l.size)
	return l.line
}

func (l *lines) Answer(number uint64, head []byte) (int, dialogue.Verdict) {
	end := bytes.IndexByte(head, '\n')
	switch {
	case end < 0:
		return 0, dialogue.Partial
	case head[0] == '-':
		return end + 1, dialogue.Bad
	case string(head[:end]) != fmt.Sprintf("%d %d", number, l.size):
		return 0, dialogue.Alien
	}
	return end + 1 + l.size, dialogue.Good
}

// answerer implements Answerer with a function.
type answerer func(in, out []byte) (int, []byte, dialogue.Then)

func (a answerer) Serve(in, out []byte) (int, []byte, dialogue.Then) { return a(in, out) }

func handler(renew bool) answerer {
	return func(in, out []byte) (int, []byte, dialogue.Then) {
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			return 0, out, dialogue.Wait
		}
		line := string(in[:end])
		if line == "bye" {
			return end + 1, append(out, "bye\n"...), dialogue.Over
		}
		var number, size int
		if _, err := fmt.Sscanf(line, "%d %d", &number, &size); err != nil {
			return end + 1, append(out, "-what?\n"...), dialogue.HangUp
		}
		out = fmt.Appendf(out, "%d %d\n", number, size)
		for range size {
			out = append(out, 'x')
		}
		if renew {
			return end + 1, out, dialogue.HangUp
		}
		return end + 1, out, dialogue.Next
	}
}

var loopback = netip.MustParseAddr("127.0.0.1")

func client(t *testing.T, spec dialogue.ClientSpec) *dialogue.Client {
	t.Helper()
	spec.Local = netip.AddrPortFrom(loopback, 0)
	c, err := dialogue.NewClient(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func window(length time.Duration) traffic.Window {
	now := clock.Now()
	return traffic.Window{Open: now, Start: now, Close: now + int64(length)}
}

// run runs one trial of a client, and returns its sample.
func run(c *dialogue.Client, length time.Duration) traffic.Sample {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.Prepare(1)
	traffic.Drive(c, 1, window(length))
	c.Collect()
	return *c.Sample()
}

func schedule(t *testing.T, rate float64) *traffic.Schedule {
	t.Helper()
	s, err := traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: rate, Arrivals: "poisson", Sizes: "constant", Size: 1, Least: 1, Most: 1, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every request has its answer, in every mode; nothing of the first trial affects the second.
func TestWays(t *testing.T) {
	workloadtest.Loopback(t)
	for name, tt := range map[string]struct {
		spec dialogue.ClientSpec
		size int
	}{
		"one":              {dialogue.ClientSpec{Connections: 1}, 100},
		"many":             {dialogue.ClientSpec{Connections: 300}, 100},
		"empty":            {dialogue.ClientSpec{Connections: 3}, 0},
		"pipelined":        {dialogue.ClientSpec{Connections: 3, Pipeline: 20}, 100},
		"large":            {dialogue.ClientSpec{Connections: 4}, 1 << 20},
		"large, piped":     {dialogue.ClientSpec{Connections: 4, Pipeline: 3}, 1 << 18}, // more than a receive buffer at first
		"renewed":          {dialogue.ClientSpec{Connections: 5, Renew: true}, 100},
		"scheduled":        {dialogue.ClientSpec{Connections: 5, Schedule: schedule(t, 5000)}, 100},
		"scheduled, piped": {dialogue.ClientSpec{Connections: 2, Pipeline: 4, Schedule: schedule(t, 5000)}, 100},
		"scheduled, anew":  {dialogue.ClientSpec{Connections: 5, Schedule: schedule(t, 3000), Renew: true}, 100},
		"fresh":            {dialogue.ClientSpec{Connections: 5, Fresh: true}, 100},
		"fresh, anew":      {dialogue.ClientSpec{Connections: 5, Fresh: true, Renew: true}, 100},
	} {
		for _, farewell := range []bool{true, false} {
			t.Run(fmt.Sprint(name, farewell), func(t *testing.T) {
				if tt.size >= 1<<18 {
					testnet.NotInRace(t, "reading takes longer than a drain")
				}
				threads := witness.Threads(t, 2)
				ofServer, ofClient := threads[0], threads[1]
				at := netip.AddrPortFrom(loopback, workloadtest.FreePort())
				server, err := dialogue.NewServer(dialogue.ServerSpec{Local: at, Answerer: handler(tt.spec.Renew)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Close)
				spec := tt.spec
				spec.Remote, spec.Asks = at, asks(tt.size)
				if farewell {
					spec.Farewell, spec.Leave = []byte("bye\n"), len("bye\n")
				}
				c := client(t, spec)
				once := func() error {
					server.Prepare(1)
					c.Prepare(1)
					w := window(60 * time.Millisecond)
					var left, ended int64
					served := ofServer(func() {
						traffic.Drive(server, 1, w)
						ended = clock.Now()
					})
					<-ofClient(func() {
						traffic.Drive(c, 1, w)
						left = clock.Now()
					})
					<-served
					late := ended - left
					c.Collect()
					server.Collect()
					s, answered := *c.Sample(), server.Sample().Total
					if s.Doubt != "" {
						return fmt.Errorf("%s %s", s.Doubt, s.Failure)
					}
					if s.Failure != "" || server.Sample().Failure != "" {
						t.Fatalf("%q, %q", s.Failure, server.Sample().Failure)
					}
					if farewell && answered == s.Total+1 { // if the drain was over before it could be sent, there is none
						answered--
					}
					if s.Sent == 0 || s.Received != s.Sent || s.Sent > s.Total || spec.Schedule != nil && s.Sent < s.Total ||
						answered != s.Total || s.Errors != 0 {
						t.Errorf("%+v, and %d were answered", s, answered)
					}
					if mine, its := s.Counts[dialogue.CountConnections],
						server.Sample().Counts[dialogue.CountConnections]; !spec.Renew &&
						(mine != int64(spec.Connections) || its != mine && !spec.Fresh) || spec.Renew && mine+its > 0 {
						t.Errorf("the kernel has counted for %d and %d connections", mine, its)
					}
					if n := c.Recorders()[traffic.Latency].Count; n != s.Received {
						t.Errorf("%d latencies of %d", n, s.Received)
					}
					if r := c.Recorders()[traffic.Connect]; (r != nil) != spec.Renew || r != nil && r.Count != s.Total {
						t.Errorf("connections are timed wrongly: %+v", s)
					}
					if farewell && late > int64(5*time.Millisecond) {
						t.Logf("the server was done %v after the client", time.Duration(late))
					}
					return nil
				}
				for range 3 {
					witness.Until(t, workloadtest.Borne(), once)
				}
			})
		}
	}
}

// scripted is a server that answers the first bytes of each connection with a fixed text, and then closes it or keeps
// it open.
func scripted(t *testing.T, answer string, hangUp bool) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 1<<16)
				for {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					for answer != "" {
						if _, err := conn.Write([]byte(answer)); err != nil {
							return
						}
						if !strings.HasSuffix(answer, "…") {
							break
						}
					}
					if hangUp {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// Each possible fault of a server ends the trial soon, and the error names it.
func TestMisbehaviour(t *testing.T) {
	workloadtest.Loopback(t)
	for name, tt := range map[string]struct {
		answer string
		hangUp bool
		spec   dialogue.ClientSpec
		want   string
	}{
		"silent":          {"", false, dialogue.ClientSpec{}, "no response arrived"},
		"hangs up":        {"", true, dialogue.ClientSpec{}, "the server closed a connection"},
		"another answer":  {"7 7\n", false, dialogue.ClientSpec{}, `invalid response: "7 7\n"`},
		"error":           {"-no\n", false, dialogue.ClientSpec{}, `all responses are errors: "-no\n"`},
		"half an answer":  {"0 100\nxxxx", true, dialogue.ClientSpec{}, "in the middle of a response"},
		"half a head":     {"0 1", true, dialogue.ClientSpec{}, "in the middle of a response"},
		"too long a head": {strings.Repeat("1", 1000), false, dialogue.ClientSpec{}, "its header does not contain its length"},
		"too much":        {"0 100\n" + strings.Repeat("x", 101), false, dialogue.ClientSpec{}, "invalid response"},
		"without end":     {strings.Repeat("x", 1<<16) + "…", false, dialogue.ClientSpec{}, "invalid response"},
		"never closes":    {"0 100\n" + strings.Repeat("x", 100), false, dialogue.ClientSpec{Renew: true}, ""},
		"filled badly": {
			"-full\n", false,
			dialogue.ClientSpec{Fresh: true, Loads: 1},
			`the server could not be filled: "-full\n"`,
		},
		"not filled": {
			"", true,
			dialogue.ClientSpec{Fresh: true, Loads: 3},
			`the server could not be filled: the server closed a connection`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tt.spec
			spec.Remote, spec.Asks, spec.Load, spec.Connections = scripted(t, tt.answer, tt.hangUp), asks(100), asks(100), 1
			c := client(t, spec)
			var s traffic.Sample
			// On a busy machine, the server may have no CPU for as long as a trial lasts.
			witness.Until(t, workloadtest.Borne(), func() error {
				start := time.Now()
				s = run(c, 50*time.Millisecond)
				if took := time.Since(start); took > 500*time.Millisecond {
					return fmt.Errorf("it took %v", took)
				}
				if !strings.Contains(s.Failure, tt.want) || (tt.want == "") != (s.Failure == "") ||
					tt.want == "" && s.Doubt == "" {
					return fmt.Errorf("failure %q, doubt %q; want %q", s.Failure, s.Doubt, tt.want)
				}
				return nil
			})
		})
	}
}

// The client waits for a server that is not there yet. For a server that never starts, and for an address at which
// connections are lost, it reports an error in time.
func TestAbsent(t *testing.T) {
	workloadtest.Loopback(t)
	at := netip.AddrPortFrom(loopback, workloadtest.FreePort())
	spec := dialogue.ClientSpec{Remote: at, Asks: asks(100), Load: asks(10), Loads: 100, Connections: 3, Fresh: true}
	c := client(t, spec)
	watch, start := witness.Begin(t), time.Now()
	if s := run(c, 20*time.Millisecond); !strings.Contains(s.Failure, "no connection: connect to "+at.String()) ||
		!strings.Contains(s.Failure, "refused") {
		t.Errorf("%q", s.Failure)
	}
	if took, seen := time.Since(start), watch.Seen(t); took > time.Second+seen.Excuse() || took < 800*time.Millisecond {
		t.Errorf("given up after %v (%v)", took, seen)
	}
	witness.Until(t, workloadtest.Borne(), func() error {
		served := make(chan error, 1)
		time.AfterFunc(100*time.Millisecond, func() {
			server, err := dialogue.NewServer(dialogue.ServerSpec{Local: at, Answerer: handler(false)})
			if err == nil {
				for range 2 { // the second call is that of the trial
					server.Run(1, window(500*time.Millisecond))
				}
				server.Close()
			}
			served <- err
		})
		s := run(c, 50*time.Millisecond)
		if err := <-served; err != nil {
			return err
		}
		if s.Failure != "" || s.Received == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	spec.Fresh = false
	spec.Remote = netip.AddrPortFrom(loopback, workloadtest.FreePort())
	c = client(t, spec)
	watch, start = witness.Begin(t), time.Now()
	s := run(c, 20*time.Millisecond)
	if took, seen := time.Since(start), watch.Seen(t); !strings.Contains(s.Failure, "refused") ||
		took > 200*time.Millisecond+seen.Excuse() {
		t.Errorf("%q after %v (%v)", s.Failure, took, seen)
	}
}

// A server that holds only so many connections closes the next one, and accepts one again when another has ended.
func TestMost(t *testing.T) {
	workloadtest.Loopback(t)
	at := netip.AddrPortFrom(loopback, workloadtest.FreePort())
	server, err := dialogue.NewServer(dialogue.ServerSpec{Local: at, Answerer: handler(false), Most: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var held []net.Conn
	closed := func() bool { // a new connection
		conn, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		server.Prepare(1)
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = conn.Read(make([]byte, 1))
		held = append(held, conn)
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	for i, want := range []bool{false, false, true} {
		if got := closed(); got != want {
			t.Errorf("connection %d closed: %v, want %v", i, got, want)
		}
	}
	_ = held[0].Close()
	server.Prepare(2)
	if closed() {
		t.Error("a connection was closed although one had ended")
	}
}
