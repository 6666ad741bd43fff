package kv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/kv"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// withRedis skips a test if redis-server is not installed, and returns parameters.
func withRedis(t *testing.T, given map[string]string) map[string]string {
	t.Helper()
	given["server"] = "redis"
	params, err := kv.Workload{}.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	needs := kv.Workload{}.Describe().Needs(params, workload.Sink)
	if len(needs) != 1 || needs[0].Program != "redis-server" {
		t.Fatalf("it needs %+v", needs)
	}
	_, err = needs[0].Locate()
	testnet.Skip(t, err)
	if v, err := needs[0].Version(t.Context()); err != nil || !strings.Contains(v, ".") {
		t.Errorf("version %q, %v", v, err)
	}
	return given
}

// userTick is how far the CPU time outside the kernel may be ahead, in ns. The kernel divides run time by the ticks
// seen in each mode, and never reduces a value that it has reported (kernel/sched/cputime.c, cputime_adjust).
const userTick = 1e7

// borne is the limit for trials with redis-server, which begins and ends with the trial.
func borne() witness.Limit {
	limit := workloadtest.Borne()
	limit.Share = 0.15
	return limit
}

// soundRedis runs a trial that is drained. The server begins and ends with it, and the kernel does not report how long
// such a process waited.
func soundRedis(t *testing.T, r *workloadtest.Rig) {
	t.Helper()
	var trial workload.Trial
	var result workload.Result
	witness.Until(t, borne(), func() error {
		trial, result = r.Trial(t)
		if left := workloadtest.Started(t, "redis-server"); len(left) > 0 {
			t.Fatalf("processes left behind: %v", left)
		}
		if why, doubt := trial.Failure(), trial.Sources[0].Doubt; why != "" || doubt != "" {
			return fmt.Errorf("not drained: %q, %q", why, doubt)
		}
		return nil
	})
	s, server := trial.Sources[0], trial.Sinks[0]
	if s.Received != s.Sent || s.Sent == 0 || s.Errors > 0 {
		t.Errorf("%+v", s)
	}
	if server.Span != int64(r.Length) || server.CPU < s.Received*200 || float64(server.CPU) > 1.2*float64(server.Span) ||
		server.User < 0 || float64(server.User) > 1.2*float64(server.CPU)+userTick {
		t.Errorf("run time %v of %v, %v outside the kernel", time.Duration(server.CPU), time.Duration(server.Span),
			time.Duration(server.User))
	}
	t.Logf("%v", result.Metrics)
}

// redis-server answers like nettoll's own server, and each trial has a new one.
func TestRedis(t *testing.T) {
	for _, given := range []map[string]string{
		{},
		{"operation": "set", "payload": "64KiB", "clients": "5"},
		{"operation": "mixed", "pipeline": "10", "keys": "10000", "payload": "100"},
		{"rate": "2k/s", "clients": "3"},
	} {
		t.Run(fmt.Sprint(given), func(t *testing.T) {
			r := workloadtest.NewRig(t, kv.Workload{}, workloadtest.Options{
				Pairs: 1, Length: 300 * time.Millisecond, Given: withRedis(t, given),
			})
			soundRedis(t, r)
			if f, err := r.Sinks[0].Facts(); err != nil || f.SendBuffer <= 0 {
				t.Errorf("facts %+v, %v", f, err)
			}
		})
	}
}

// during does something when the sink's trial has begun.
type during struct {
	traffic.Endpoint
	next *func()
}

func (d during) Run(trial uint64, w traffic.Window) {
	if f := *d.next; f != nil {
		time.AfterFunc(100*time.Millisecond, f)
	}
	d.Endpoint.Run(trial, w)
}

func (d during) Collect() { d.Endpoint.(traffic.Collector).Collect() }

// Whatever happens to redis-server, the trial ends in time, with a reason and nothing left, and the next one works.
func TestRedisDisturbed(t *testing.T) {
	var next func()
	r := workloadtest.NewRig(t, kv.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 300 * time.Millisecond, Given: withRedis(t, map[string]string{}),
		Wrap: func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
			if side == workload.Sink {
				return during{e, &next}
			}
			return e
		},
	})
	all := func(s syscall.Signal) func() {
		return func() {
			for _, pid := range workloadtest.Started(t, "redis-server") {
				_ = syscall.Kill(pid, s) // it may be gone
			}
		}
	}
	for _, tt := range []struct {
		name string
		next func()
		want string
	}{
		{"it dies", all(syscall.SIGKILL), "redis-server server ended with signal: killed"},
		{"it ends", all(syscall.SIGTERM), "redis-server server ended before its trial"},
		{"it hangs", all(syscall.SIGSTOP), ""},
	} {
		// On a busy machine it may happen after the trial is over.
		witness.Until(t, borne(), func() error {
			happened := make(chan struct{})
			next = func() {
				tt.next()
				close(happened)
			}
			began := time.Now()
			timing, err := r.Block(context.Background())
			if err != nil || !timing.Done {
				t.Fatalf("%s: %v, %+v", tt.name, err, timing)
			}
			took := time.Since(began)
			select {
			case <-happened:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: the sink's trial did not begin", tt.name)
			}
			r.Sinks[0].(traffic.Collector).Collect()
			r.Sources[0].(traffic.Collector).Collect()
			source, sink := r.Sources[0].Sample(), r.Sinks[0].Sample()
			said := source.Failure + "; " + source.Doubt + "; " + sink.Failure + "; " + sink.Doubt
			t.Logf("%s: %s", tt.name, said)
			if left := workloadtest.Started(t, "redis-server"); len(left) > 0 {
				t.Fatalf("%s: processes left behind: %v", tt.name, left)
			}
			if took > 2*time.Second {
				return fmt.Errorf("%s: the trial took %v", tt.name, took)
			}
			if !strings.Contains(said, tt.want) || source.Failure == "" && source.Doubt == "" && sink.Failure == "" {
				return fmt.Errorf("%s: %q, want %q", tt.name, said, tt.want)
			}
			return nil
		})
	}
	next = nil
	soundRedis(t, r)
}

// A port in use and a missing program are reported with their reasons.
func TestRedisFaults(t *testing.T) {
	given := withRedis(t, map[string]string{})
	var at netip.AddrPort
	load := noting{at: &at}
	r := workloadtest.NewRig(t, load, workloadtest.Options{Pairs: 1, Length: 300 * time.Millisecond, Given: given})
	l, err := net.Listen("tcp", at.String()) //nolint:noctx // it takes no time
	if err != nil {
		t.Fatal(err)
	}
	trial, _ := r.Trial(t)
	if why := trial.Failure(); !strings.Contains(why, "redis-server server ended with exit status 1") ||
		!strings.Contains(why, "Address already in use") {
		t.Errorf("the port is taken: %q", why)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	soundRedis(t, r)

	params, err := load.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	s := workload.Spec{
		Params: params, Side: workload.Sink, Local: at,
		Stall: workload.Stall{Every: time.Second, For: time.Millisecond},
	}
	if _, err := (kv.Workload{}).Open(s); err == nil || !strings.Contains(err.Error(), "planted delays are not supported") {
		t.Errorf("a stall: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	s.Stall = workload.Stall{}
	if _, err := (kv.Workload{}).Open(s); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("without the program: %v, want errors.ErrUnsupported that names its package", err)
	}
}

// noting is kv, and records the address of its sink.
type noting struct {
	kv.Workload
	at *netip.AddrPort
}

func (n noting) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Side == workload.Sink {
		*n.at = s.Local
	}
	return n.Workload.Open(s)
}

// If another program sends the requests, the sink fills the server itself: each key has a value.
func TestRedisFilled(t *testing.T) {
	params, err := kv.Workload{}.Describe().Resolve(withRedis(t, map[string]string{"keys": "500", "payload": "2KiB"}))
	if err != nil {
		t.Fatal(err)
	}
	workloadtest.Loopback(t)
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), workloadtest.FreePort())
	e, err := kv.Workload{}.Open(workload.Spec{Params: params, Side: workload.Sink, Local: at, Driver: "another"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e.Prepare(1)
	if why := e.Sample().Failure; why != "" {
		t.Fatal(why)
	}
	c, err := net.Dial("tcp", at.String()) //nolint:noctx // it takes no time
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for request, want := range map[string]string{
		"DBSIZE": ":500\r\n", "STRLEN key:000000000499": ":2048\r\n", "STRLEN key:000000000500": ":0\r\n",
	} {
		if _, err := fmt.Fprintf(c, "%s\r\n", request); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		if got := string(buf[:n]); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", request, got, err, want)
		}
	}
}
