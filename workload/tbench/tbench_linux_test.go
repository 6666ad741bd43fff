package tbench_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/tbench"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// needed skips a test if tbench is not installed.
func needed(t *testing.T) {
	t.Helper()
	_, err := tbench.Workload{}.Describe().Programs(nil, workload.Source)[0].Locate()
	testnet.Skip(t, err)
}

// borne is the limit for a trial: if other work uses the CPUs, programs do not end in time. They begin and end with the
// trial, and the kernel does not report how long such processes waited.
func borne() witness.Limit { return witness.Limit{Lost: 50 * time.Millisecond, Share: 0.1} }

func rig(t *testing.T, given map[string]string,
	wrap func(workload.Side, int, traffic.Endpoint) traffic.Endpoint,
) *workloadtest.Rig {
	t.Helper()
	d := tbench.Workload{}.Describe()
	params, err := d.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return workloadtest.NewRig(t, tbench.Workload{}, workloadtest.Options{
		Pairs: 1, Length: d.Trial(params), Given: given, Wrap: wrap,
	})
}

// sound runs a trial that has figures, and checks them.
func sound(t *testing.T, r *workloadtest.Rig) {
	t.Helper()
	witness.Until(t, borne(), func() error {
		before, packets := received(t)
		trial, result := r.Trial(t)
		nothingLeft(t)
		if reason := trial.Failure(); reason != "" {
			return fmt.Errorf("the trial failed: %s", reason)
		}
		for name, v := range result.Metrics {
			if _, known := r.Load.Describe().Vocabulary().Lookup(name); !known ||
				!slices.Contains(r.Load.Describe().Metrics, name) {
				t.Errorf("metric %q is not declared and the description", name)
			}
			if v < 0 || v == 0 && name != "cpu_softirqd" && name != "cpu_user" {
				t.Errorf("%s is %v", name, v)
			}
		}
		if trial.Window != time.Second || trial.Length != time.Second {
			t.Errorf("window %v of %v", trial.Window, trial.Length)
		}
		for side, s := range map[string]traffic.Sample{"source": trial.Sources[0], "sink": trial.Sinks[0]} {
			// Child processes do all the work: each operation takes several µs of both ends, which share one CPU.
			if s.CPU < trial.Sources[0].Received*int64(time.Microsecond) || float64(s.CPU) > 1.2*float64(s.Span) || s.User < 0 ||
				float64(s.User) > 1.1*float64(s.CPU) {
				t.Errorf("%s: run time %v of %v, %v outside the kernel", side, time.Duration(s.CPU), time.Duration(s.Span),
					time.Duration(s.User))
			}
		}
		// The interface has carried the window's bytes, those of the second before it and all headers.
		s := trial.Sources[0]
		bytes, after := received(t)
		if there, back := (tbench.Workload{}).Carried(trial, 0); after-packets < there+back || there == 0 {
			t.Errorf("lo counted %d packets, of at least %d and %d", after-packets, there, back)
		}
		if got := bytes - before; got < s.Bytes ||
			float64(got) > 1.2*float64(s.Bytes)*float64(s.Total)/float64(s.Received)+64<<20 {
			t.Errorf("tbench counted %d bytes in its window, and lo %d in all", s.Bytes, got)
		}
		t.Logf("%v", result.Metrics)
		return nil
	})
}

// received returns the numbers of bytes and packets that lo has received (proc_pid_net(5), dev).
func received(t *testing.T) (bytes, packets int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "lo" {
			if _, err := fmt.Sscan(rest, &bytes, &packets); err != nil {
				t.Fatal(err)
			}
			return bytes, packets
		}
	}
	t.Fatal("no lo")
	return 0, 0
}

// programs lists the processes in this PID and network namespace that run tbench or its server.
func programs(t *testing.T, names ...string) (pids []int) {
	t.Helper()
	here, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		there, err2 := os.Readlink(filepath.Dir(path) + "/ns/net")
		if err != nil || err2 != nil || there != here || strings.Contains(string(text), ") Z ") {
			continue
		}
		number, rest, _ := strings.Cut(string(text), " (")
		name, _, _ := strings.Cut(rest, ") ")
		if slices.Contains(names, name) {
			pid, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// nothingLeft checks that child processes of a trial's programs are gone.
func nothingLeft(t *testing.T) {
	t.Helper()
	if left := programs(t, "tbench", "tbench_srv"); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}

// Checks that need trials of less than a second are not run, because tbench counts whole seconds.
func TestConformance(t *testing.T) { workloadtest.Conformance(t, tbench.Workload{}) }

func TestTrials(t *testing.T) {
	needed(t)
	r := rig(t, map[string]string{"clients": "4"}, nil)
	sound(t, r)
	if f, err := r.Sources[0].Facts(); err != nil || f.SendBuffer <= 0 || f.RecvBuffer <= 0 {
		t.Errorf("facts %+v, %v", f, err)
	}
}

// disturb does something when its trial has begun.
type disturb struct {
	traffic.Endpoint
	next *func()
}

func (d disturb) Run(trial uint64, w traffic.Window) {
	if f := *d.next; f != nil {
		go f()
	}
	d.Endpoint.Run(trial, w)
}

func (d disturb) Collect() { d.Endpoint.(traffic.Collector).Collect() }

// Whatever happens to the programs, the trial ends in time, with a reason and nothing left, and the next one works.
func TestDisturbed(t *testing.T) {
	needed(t)
	var next func()
	r := rig(t, nil, func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
		if side == workload.Source {
			return disturb{e, &next}
		}
		return e
	})
	all := func(s syscall.Signal, names ...string) func() {
		return func() {
			time.Sleep(time.Second)
			for _, pid := range programs(t, names...) {
				if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Error(err)
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		next func()
		want string
	}{
		{
			"a server that dies", all(syscall.SIGKILL, "tbench_srv"),
			"tbench client ended with exit status 1: error reading header",
		},
		{"clients that die", all(syscall.SIGKILL, "tbench"), "tbench client ended with signal: killed"},
		{"clients that hang", all(syscall.SIGSTOP, "tbench"), "tbench client did not end within its trial of 3.5s"},
	} {
		next = tt.next
		began := time.Now()
		trial, _ := r.Trial(t)
		if reason := trial.Failure(); !strings.Contains(reason, tt.want) {
			t.Errorf("%s: the trial failed with %q, want %q", tt.name, reason, tt.want)
		} else {
			t.Logf("%s: %s", tt.name, reason)
		}
		if took := time.Since(began); took > r.Length+time.Second {
			t.Errorf("%s: the trial took %v", tt.name, took)
		}
		nothingLeft(t)
	}
	next = nil
	sound(t, r)
}

// absent is a sink that does nothing.
type absent struct{ traffic.Endpoint }

func (absent) Prepare(uint64)             {}
func (absent) Run(uint64, traffic.Window) {}
func (absent) Collect()                   {}

// A port in use, a missing server and programs with unknown output are reported with their reasons.
func TestFaults(t *testing.T) {
	needed(t)
	t.Run("port taken", func(t *testing.T) {
		r := rig(t, nil, nil)
		l, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", tbench.Port)) //nolint:noctx // it takes no time
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		r.Sinks[0].Prepare(1)
		now := clock.Now()
		traffic.Drive(r.Sinks[0], 1, traffic.Window{Open: now, Start: now, Close: now + int64(r.Length)})
		r.Sinks[0].(traffic.Collector).Collect()
		if got, want := r.Sinks[0].Sample().Failure,
			"tbench_srv server ended with exit status 1: listen failed"; got != want {
			t.Errorf("failed with %q, want %q", got, want)
		}
		nothingLeft(t)
	})
	t.Run("nobody there", func(t *testing.T) {
		fails(t, rig(t, nil, func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
			if side == workload.Sink {
				return absent{e}
			}
			return e
		}), "failed to connect to 127.0.0.1 - Connection refused")
	})
	t.Run("nonsense", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"tbench", "tbench_srv"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 'Throughput NaN MB/sec'\n"),
				0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		fails(t, rig(t, nil, nil), "tbench client did not print its throughput")
	})
}

func fails(t *testing.T, r *workloadtest.Rig, want string) {
	t.Helper()
	trial, _ := r.Trial(t)
	if reason := trial.Failure(); !strings.Contains(reason, want) {
		t.Errorf("the trial failed with %q, want %q", reason, want)
	}
	nothingLeft(t)
}

func TestUnsupported(t *testing.T) {
	params, err := tbench.Workload{}.Describe().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := workload.Spec{
		Workload: "tbench", Params: params, Side: workload.Sink,
		Local: netip.MustParseAddrPort("[::1]:5000"), Remote: netip.MustParseAddrPort("[::1]:5001"),
	}
	if _, err := (tbench.Workload{}).Open(s); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("opening at an address of IPv6: %v, want errors.ErrUnsupported", err)
	}
	workloadtest.Loopback(t)
	s.Local, s.Remote = netip.MustParseAddrPort("127.0.0.1:5000"), netip.MustParseAddrPort("127.0.0.1:5001")
	t.Setenv("PATH", t.TempDir())
	for side, program := range map[workload.Side]string{workload.Sink: `"tbench_srv"`, workload.Source: `"tbench"`} {
		s.Side = side
		_, err := tbench.Workload{}.Open(s)
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), program) ||
			!strings.Contains(err.Error(), "dbench") {
			t.Errorf("%s without the program: %v, want errors.ErrUnsupported that names it and its package", side, err)
		}
	}
}
