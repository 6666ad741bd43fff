package kv_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/kv"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	testnet.NotWithout(t)
	workloadtest.Conformance(t, kv.Workload{},
		map[string]string{"clients": "10"},
		map[string]string{"operation": "mixed", "payload": "16KiB", "clients": "3", "pipeline": "2", "rate": "4k/s"},
	)
}

// In each mode, every request has its response, and the store answers as many as were sent.
func TestWays(t *testing.T) {
	testnet.NotWithout(t)
	for _, given := range []map[string]string{
		{},
		{"operation": "set"},
		{"payload": "512KiB", "clients": "8"},
		{"payload": "512KiB", "operation": "set", "clients": "4", "keys": "1"},
		{"payload": "1MiB", "operation": "mixed", "clients": "3", "keys": "3"},
		{"payload": "1", "clients": "2", "pipeline": "100"},
		{"operation": "mixed", "pipeline": "10", "keys": "100000", "payload": "100"},
		{"operation": "mixed", "sets": "5%", "rate": "5k/s", "arrivals": "poisson"},
		{"clients": "1000"},
	} {
		t.Run(fmt.Sprint(given), func(t *testing.T) {
			r := workloadtest.NewRig(t, kv.Workload{}, workloadtest.Options{
				Pairs: 1, Length: 80 * time.Millisecond, Given: given,
			})
			witness.Until(t, workloadtest.Borne(), func() error {
				trial, result := r.Trial(t)
				s, answered := trial.Sources[0], trial.Sinks[0].Total
				if s.Doubt != "" { // other work used the CPU
					return fmt.Errorf("%s: %s", s.Doubt, trial.Failure())
				}
				if why := trial.Failure(); why != "" {
					t.Fatal(why)
				}
				// plus the farewell, if there was time for it
				if s.Received != s.Sent || s.Sent == 0 || s.Errors > 0 || answered != s.Total && answered != s.Total+1 {
					t.Errorf("%+v; %d were answered", s, answered)
				}
				want := result.Metrics["transaction_rate"] * 8 * float64(r.Params.Size("payload"))
				if got := result.Metrics["goodput"]; got < 0.999*want || got > 1.001*want {
					t.Errorf("goodput of %g bit/s, want %g", got, want)
				}
				return nil
			})
		})
	}
}

func TestIPv6(t *testing.T) {
	here := workloadtest.Where{Address: netip.IPv6Loopback(), Do: func(f func() error) error { return f() }}
	r := workloadtest.NewRig(t, kv.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 50 * time.Millisecond,
		Where: map[workload.Side]workloadtest.Where{workload.Source: here, workload.Sink: here},
	})
	if trial, result := r.Trial(t); trial.Failure() != "" || result.Metrics["transaction_rate"] <= 0 {
		t.Errorf("%q, %v", trial.Failure(), result.Metrics)
	}
}

// On a schedule a stall is visible, and in a closed loop it is not: see [workloadtest.Stalls].
func TestStalls(t *testing.T) {
	rig := func(given map[string]string, stall workload.Stall) *workloadtest.Rig {
		return workloadtest.NewRig(t, kv.Workload{}, workloadtest.Options{
			Pairs: 1, Length: workloadtest.StallLength, Given: given, Stall: stall,
		})
	}
	still := workload.Stall{Every: workloadtest.StallEvery, For: workloadtest.StallFor}
	schedule := map[string]string{"rate": workloadtest.StallRate}
	workloadtest.Stalls(t, workloadtest.Even(), rig(schedule, still), rig(schedule, workload.Stall{}),
		rig(map[string]string{"clients": "1"}, still))
}

// Each possible fault of a server ends a trial by its deadline, and the error names it.
func TestMisbehaviour(t *testing.T) {
	workloadtest.Loopback(t)
	value := "$1024\r\n" + strings.Repeat("x", 1024) + "\r\n"
	for name, tt := range map[string]struct {
		answer string
		hangUp bool
		want   string
	}{
		"another":  {"+OK\r\n", false, `invalid response: "+OK\r\n"`},
		"error":    {"-LOADING Redis is loading\r\n", false, `all responses are errors: "-LOADING Redis is loading\r\n"`},
		"missing":  {"$-1\r\n", false, `all responses are errors: "$-1\r\n"`},
		"half":     {value[:500], true, "the server closed a connection in the middle of a response"},
		"too long": {"$2048\r\n", false, "invalid response: a value of 2048 bytes instead of 1024"},
		"too much": {value + "x", false, "invalid response: it was not requested"},
		"silent":   {"", false, "no response arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			params, err := kv.Workload{}.Describe().Resolve(map[string]string{"clients": "1"})
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			// The source's thread never gives its P back, and a garbage collection would stop the server until it does.
			before, collect := runtime.GOMAXPROCS(6), debug.SetGCPercent(-1)
			defer func() {
				runtime.GOMAXPROCS(before)
				debug.SetGCPercent(collect)
			}()
			go answerAll(l, tt.answer, tt.hangUp)
			at := l.Addr().(*net.TCPAddr).AddrPort()
			e, err := kv.Workload{}.Open(workload.Spec{
				Params: params, Side: workload.Source, Local: netip.AddrPortFrom(at.Addr(), 0), Remote: at,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			// On a busy machine, the server may have no CPU for as long as a trial lasts.
			witness.Until(t, workloadtest.Borne(), func() error {
				e.Prepare(1)
				now := clock.Now()
				traffic.Drive(e, 1, traffic.Window{Open: now, Start: now, Close: now + int64(100*time.Millisecond)})
				if took := time.Duration(clock.Now() - now); took > 300*time.Millisecond {
					return fmt.Errorf("it took %v", took)
				}
				e.(traffic.Collector).Collect()
				if why := e.Sample().Failure; !strings.Contains(why, tt.want) {
					return fmt.Errorf("%q, want %q", why, tt.want)
				}
				return nil
			})
		})
	}
}

// answerAll gives the same answer to all data on any connection.
func answerAll(l net.Listener, answer string, hangUp bool) {
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
				if _, err := conn.Write([]byte(answer)); err != nil || hangUp {
					return
				}
			}
		}()
	}
}

// serve runs the embedded server until the test ends, and returns its address.
func serve(t *testing.T, given map[string]string) netip.AddrPort {
	t.Helper()
	workloadtest.Loopback(t)
	params, err := kv.Workload{}.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), workloadtest.FreePort())
	e, err := kv.Workload{}.Open(workload.Spec{Params: params, Side: workload.Sink, Local: at})
	if err != nil {
		t.Fatal(err)
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			default:
				now := clock.Now()
				e.Run(1, traffic.Window{Open: now, Start: now, Close: now + int64(5*time.Millisecond)})
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		<-done
		e.Close()
	})
	return at
}

// A value is returned as it was set, byte by byte, however the bytes of a request arrive.
func TestStore(t *testing.T) {
	conn, err := net.Dial("tcp", serve(t, map[string]string{"payload": "5", "keys": "2"}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	want := func(question, answer string) {
		t.Helper()
		got := make([]byte, len(answer))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != answer {
			t.Fatalf("%.60q: %.80q, %v; want %.80q", question, got, err, answer)
		}
	}
	long := strings.Repeat("0123456789\r\n", 50_000)
	set := fmt.Sprintf("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$%d\r\n%s\r\n", len(long), long)
	for _, tt := range []struct{ ask, answer string }{
		{"*1\r\n$4\r\nPING\r\n", "+PONG\r\n"},
		{"*2\r\n$4\r\nPing\r\n$2\r\nhi\r\n", "$2\r\nhi\r\n"},
		{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "$-1\r\n"},
		{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "+OK\r\n$3\r\na\r\n\r\n"},
		{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "+OK\r\n$0\r\n\r\n"},
		{set + "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", fmt.Sprintf("+OK\r\n$%d\r\n%s\r\n", len(long), long)},
		{
			"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nEX\r\n$1\r\n1\r\n",
			"-ERR syntax error: options of SET are not known here\r\n",
		},
		{"*1\r\n$3\r\nGET\r\n", "-ERR wrong number of arguments for 'get' command\r\n"},
		{"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$4\r\nsave\r\n", "-ERR unknown command \"CONFIG\"\r\n"},
		{"*1\r\n$3\r\n\"\r\n\r\n", "-ERR unknown command \"\\\"\\r\\n\"\r\n"},
		{strings.Repeat("*1\r\n$4\r\nPING\r\n", 1000), strings.Repeat("+PONG\r\n", 1000)},
	} {
		if _, err := conn.Write([]byte(tt.ask)); err != nil {
			t.Fatal(err)
		}
		want(tt.ask, tt.answer)
		step := max(1, len(tt.ask)/20) // also in pieces
		for at := 0; at < len(tt.ask); at += step {
			if strings.HasPrefix(tt.answer, "$-1") {
				break // the value exists by now
			}
			if _, err := conn.Write([]byte(tt.ask[at:min(at+step, len(tt.ask))])); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Microsecond)
			if at+step >= len(tt.ask) {
				want(tt.ask, tt.answer)
			}
		}
	}
	got := map[string]bool{}
	for key := range 2 {
		if _, err := fmt.Fprintf(conn, "*2\r\n$3\r\nGET\r\n$16\r\nkey:%012d\r\n", key); err != nil {
			t.Fatal(err)
		}
		value := make([]byte, len("$5\r\n.....\r\n"))
		if _, err := io.ReadFull(r, value); err != nil || !bytes.HasPrefix(value, []byte("$5\r\n")) {
			t.Fatalf("%q, %v", value, err)
		}
		got[string(value)] = true
	}
	if len(got) != 2 {
		t.Errorf("two keys have the same value: %v", got)
	}
}

// A client that does not speak the protocol gets an error and is disconnected.
func TestProtocolErrors(t *testing.T) {
	at := serve(t, map[string]string{"clients": "1"})
	for _, ask := range []string{
		"GET k\r\n", "*0\r\n", "*-1\r\n", "*2000\r\n", "*01\r\n", "*1\r\nGET\r\n", "*1\r\n$x\r\n", "*1\r\n$999999999\r\n",
		"*1\r\n$9999999999\r\n", "*1\r\n$4\r\nPINGxx", "*1\r$", "*1\n",
	} {
		conn, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = conn.Write([]byte(ask))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(got, []byte("-ERR Protocol error: ")) ||
			!bytes.HasSuffix(got, []byte("\r\n")) {
			t.Errorf("%q: %q, %v", ask, got, err)
		}
		_ = conn.Close()
	}
}

// A client that does not read its answers does not block others.
func TestDeafClient(t *testing.T) {
	at := serve(t, map[string]string{"payload": "1MiB", "keys": "1"})
	deaf, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	get := "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n"
	if _, err := deaf.Write([]byte(strings.Repeat(get, 100))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	other, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_ = other.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := other.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	pong := make([]byte, len("+PONG\r\n"))
	if _, err := io.ReadFull(other, pong); err != nil || string(pong) != "+PONG\r\n" {
		t.Errorf("%q, %v", pong, err)
	}
	_ = deaf.SetDeadline(time.Now().Add(10 * time.Second))
	const one = len("$1048576\r\n") + 1<<20 + len("\r\n")
	if n, err := io.CopyN(io.Discard, deaf, 100*int64(one)); err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Redis's own client understands the answers of the embedded server.
func TestRedisCLI(t *testing.T) {
	path := testnet.Program(t, "redis-cli", "redis-tools")
	at := serve(t, map[string]string{"payload": "20"})
	for _, tt := range []struct{ args, want string }{
		{"PING", "PONG"},
		{"SET a b", "OK"},
		{"GET a", "b"},
		{"GET nobody", ""},
		{"INFO", `ERR unknown command "INFO"`},
	} {
		args := append([]string{"-h", at.Addr().String(), "-p", fmt.Sprint(at.Port())}, strings.Fields(tt.args)...)
		out, err := exec.Command(path, args...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.args, got, err, tt.want)
		}
	}
}

func TestRefuse(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"arrivals=poisson", "arrivals=poisson needs a rate"},
		{"rate=1k/s,sizes=uniform", "all values have the size of the payload"},
		{"keys=1000,payload=512KiB", "valid: at most 128 keys"},
		{"keys=200000,payload=10,server=redis", "server redis is filled before each trial (valid: at most 100000 keys)"},
		{"clients=1000,payload=1MiB", "valid: at most 256 clients"},
		{"sets=10%", "sets=10% has no effect with operation=get"},
		{"payload=0", "out of range"},
		{"clients=0", "from 1 to 1000"},
		{"pipeline=0", "from 1 to 1000"},
		{"keys=0", "or auto"},
		{"operation=del", "valid: get, set, mixed"},
		{"server=memcached", "valid: embedded"},
	} {
		_, given, err := part.Parse("workload", "kv("+tt.given+")")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (kv.Workload{}).Describe().Resolve(given); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.given, err, tt.want)
		}
	}
}

func TestPrimary(t *testing.T) {
	d := kv.Workload{}.Describe()
	for given, want := range map[string]string{
		"kv": "transaction_rate", "kv(clients=1)": "latency_p50", "kv(clients=1,pipeline=2)": "transaction_rate",
		"kv(rate=1k/s)": "latency_p50",
	} {
		_, params, err := part.Parse("workload", given)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Resolve(params)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Primary(p); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
