package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/agent"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
)

// The test binary also runs as the hosts of these tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		ctx, args := context.Background(), os.Args[2:]
		switch os.Args[1] {
		case "host-init":
			os.Exit(Init(args, os.Stderr))
		case "agent":
			exit(serve(ctx, args))
		case "worker":
			exit(work(ctx))
		case "controller":
			exit(control(ctx))
		case "start":
			h, err := Start(ctx, Options{Name: "h"})
			if err == nil {
				err = h.Close()
			}
			exit(err)
		}
	}
	testnet.Main(m)
}

func exit(err error) {
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUnsupported)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(ctx context.Context, args []string) error {
	given, err := agent.Args(args)
	if err != nil {
		return err
	}
	files, err := process.Inherited(given.Files)
	if err != nil {
		return err
	}
	if mode := os.Getenv("TEST_AGENT"); mode == "dies" {
		return errors.New("this agent does not start")
	} else if mode == "hangs" {
		time.Sleep(time.Hour)
	}
	c := agent.Config{Steps: host.Steps(), Files: files, Check: deploy.Answer(kinds())}
	return agent.Serve(ctx, os.Stdin, os.Stdout, c)
}

func work(ctx context.Context) error {
	return protocol.Serve(ctx, os.Stdin, os.Stdout, protocol.Methods{
		"pid":  protocol.Method(func(context.Context, struct{}) (int, error) { return os.Getpid(), nil }),
		"wait": protocol.Method(func(ctx context.Context, _ struct{}) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
		"cost": protocol.Method(func(context.Context, struct{}) (cost, error) { return ownCost() }),
	})
}

// control starts two hosts with a worker each, reports that, and waits to be killed.
func control(ctx context.Context) error {
	for _, name := range []string{"h1", "h2"} {
		h, err := Start(ctx, Options{Name: name})
		if err != nil {
			return err
		}
		w, err := h.Start(ctx, host.WorkerSpec{ID: "w@" + name})
		if err != nil {
			return err
		}
		go func() { _ = w.Call(ctx, "wait", nil, nil) }()
		if _, err := h.Start(ctx, host.WorkerSpec{ID: "v@" + name}); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func begin(t testing.TB, o Options) *Host {
	t.Helper()
	testnet.Root(t)
	h, err := Start(t.Context(), o)
	testnet.Skip(t, err)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func sh(t *testing.T, h *Host, script string) string {
	t.Helper()
	out, err := h.Exec(t.Context(), host.Command{Args: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	if out.Exit != 0 || len(out.Stderr) > 0 {
		t.Fatalf("%s: exit %d: %s", script, out.Exit, out.Stderr)
	}
	return strings.TrimSpace(string(out.Stdout))
}

// A host has its own namespaces, and nothing in them is visible outside.
func TestHostIsIsolated(t *testing.T) {
	outside, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	h := begin(t, Options{Name: "host1"})
	if got := h.Name(); got != "host1" {
		t.Errorf("name %q", got)
	}
	for _, tt := range []struct{ what, script, want string }{
		{"host name", "cat /proc/sys/kernel/hostname", "host1"},
		{"links", "ls /sys/class/net", "lo"},
		{"links by proc", "sed -n 3,9p /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo"},
		{"cgroups", "ls /sys/fs/cgroup", ""},
		{"run", "find /run -xdev | sort", "/run\n/run/netns\n/run/whole\n/run/whole/proc\n/run/whole/sysfs"},
		{
			"devices", "ls /dev | grep -vE '^(vhost-net|net|ppp|fuse|kvm)$' | tr '\\n' ' '",
			"fd full null ptmx pts random shm stderr stdin stdout tty urandom zero",
		},
		{"block devices", "find /dev -type b | wc -l", "0"},
		{"shared memory", "ls -A /dev/shm; echo x > /dev/shm/x; cat /dev/shm/x", "x"},
		{"null", "echo x > /dev/null; head -c 1 /dev/zero | wc -c", "1"},
		{"settings of the machine", "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness /proc/sys/fs/file-max " +
			"/sys/module/*/parameters/* /sys/kernel/mm/transparent_hugepage/enabled; do " +
			"(cat $f > $f) 2>/dev/null && echo $f; done; true", ""},
		{"sysrq", "(echo h > /proc/sysrq-trigger) 2>/dev/null || echo refused", "refused"},
		{
			"settings of the network",
			"for f in /proc/sys/net/ipv4/ip_forward /sys/class/net/lo/tx_queue_len; do echo 1 > $f && cat $f; done", "1\n1",
		},
		{"PID 1", "tr '\\0' ' ' < /proc/1/cmdline", "nettoll host-init --name host1"},
		{"agent", "tr '\\0' ' ' < /proc/$PPID/cmdline", "nettoll agent --name host1"},
		{"mounts are private", "grep -c shared: /proc/self/mountinfo || true", "0"},
		{"open files", "ls /proc/self/fd | grep -v 3 | tr '\\n' ' '", "0 1 2"},
		{
			"an orphan is reaped", "(sleep 0.05 &) ; sleep 0.2; n=0; while cat /proc/[0-9]*/stat 2>/dev/null | grep ' Z '; " +
				"do [ $((n += 1)) -lt 100 ] || break; sleep 0.1; done > /dev/null; [ $n -lt 100 ] || echo a zombie stays", "",
		},
	} {
		if got := sh(t, h, tt.script); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.what, got, tt.want)
		}
	}
	// A container's namespace exists only inside.
	plan := host.Plan{Steps: []host.Step{host.Namespace{Name: "src0"}}}
	if err := h.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, h, "ls /run/netns"); got != "src0" {
		t.Errorf("inside: %q", got)
	}
	if _, err := os.Stat("/run/netns/src0"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("outside: %v", err)
	}
	if now, err := os.ReadFile("/proc/self/mounts"); err != nil || string(now) != string(outside) {
		t.Errorf("mounts outside: %v\n%s\nwere\n%s", err, now, outside)
	}
	if now, err := os.Hostname(); err != nil || now != name {
		t.Errorf("host name outside: %q, %v, was %q", now, err, name)
	}
}

func TestNetNSAndPID(t *testing.T) {
	h := begin(t, Options{Name: "h"})
	ns, err := h.NetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	got, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ns.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if want := sh(t, h, "readlink /proc/self/ns/net"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if own, err := os.Readlink("/proc/self/ns/net"); err != nil || own == got {
		t.Errorf("the host is in this namespace, %q, %v", own, err)
	}
	// An underlay receives it by name, and its plan can put things inside.
	under := begin(t, Options{Name: "underlay", Files: map[string]*os.File{"netns:host1": ns}})
	plan := host.Plan{Steps: []host.Step{host.Veth{Name: "under1", PeerNS: "@host1", PeerName: "up0"}}}
	if err := under.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, h, "ls /sys/class/net"); got != "lo\nup0" {
		t.Errorf("links of the host: %q", got)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := h.NetNS(); text(err) != `open the network namespace of host "h": it has ended` {
		t.Errorf("after the end: %v", err)
	}
}

func TestSeveralAtOnce(t *testing.T) {
	testnet.Root(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("host%d", i)
			h, err := Start(t.Context(), Options{Name: name})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = h.Close() }()
			w, err := h.Start(t.Context(), host.WorkerSpec{ID: "w"})
			if err != nil {
				t.Error(err)
				return
			}
			var pid int
			if err := w.Call(t.Context(), "pid", nil, &pid); err != nil || pid == 0 || pid > 30 {
				t.Errorf("%s: worker %d, %v", name, pid, err)
			}
		})
	}
	wg.Wait()
}

// Close does not wait for the output of what it has killed: that takes waitDelay.
func TestCloseIsQuick(t *testing.T) {
	witness.Until(t, witness.Limit{Lost: 50 * time.Millisecond, Share: 0.1}, func() error {
		h := begin(t, Options{Name: "h"})
		if _, err := h.Start(t.Context(), host.WorkerSpec{ID: "w"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d >= waitDelay {
			return fmt.Errorf("it took %v, want less than %v", d, waitDelay)
		}
		return nil
	})
}

func TestClose(t *testing.T) {
	h := begin(t, Options{Name: "h"})
	w, err := h.Start(t.Context(), host.WorkerSpec{ID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- w.Call(t.Context(), "wait", nil, nil) }()
	time.Sleep(10 * time.Millisecond)
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := syscall.Kill(h.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("PID 1 is still there: %v", err)
	}
	if err := <-waiting; text(err) != `worker "w" was ended` {
		t.Errorf("the call that waited: %v", err)
	}
	<-w.Done()
	if err := w.Err(); err != nil {
		t.Errorf("after an end that was asked for: %v", err)
	}
	if err := h.Verify(t.Context()); err == nil {
		t.Error("verified what is gone")
	}
}

// said reports whether an error is the expected one, with the output of a program that crashed.
func said(err error, want string) bool {
	head, _, _ := strings.Cut(text(err), "; its last lines:")
	return head == want
}

// However a host dies, everything that waits for it receives the reason.
func TestHostDies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		victim string // a pattern of its command line
		signal syscall.Signal
		want   string
	}{
		{"PID 1", "host-init", syscall.SIGKILL, `host "dies" ended: signal: killed`},
		{"agent", "agent", syscall.SIGKILL, `host "dies" ended: exit status 137`},
		{"PID 1 by a crash", "host-init", syscall.SIGABRT, `host "dies" ended: its PID 1 crashed`},
		{"agent by PID 1", "host-init", syscall.SIGTERM, `host "dies" ended: exit status 143`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := begin(t, Options{Name: "dies"})
			w, err := h.Start(t.Context(), host.WorkerSpec{ID: "w"})
			if err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			go func() { waiting <- w.Call(t.Context(), "wait", nil, nil) }()
			time.Sleep(10 * time.Millisecond)
			for _, p := range named("nettoll", tt.victim, "--name", "dies") {
				if err := syscall.Kill(p, tt.signal); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case err := <-waiting:
				if want := `worker "w" died: ` + tt.want; !said(err, want) {
					t.Errorf("got %v, want %s", err, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("a call still waits after 10 s")
			}
			<-w.Done()
			if err := h.Verify(t.Context()); !said(err, tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if left := named("nettoll"); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestAgentDoesNotStart(t *testing.T) {
	testnet.Root(t)
	_, err := Start(t.Context(), Options{Name: "h", Env: append(os.Environ(), "TEST_AGENT=dies")})
	if want := "start host \"h\": host \"h\" ended: exit status 1; its last lines:\n\tthis agent does not start"; text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Start(t.Context(), Options{Name: "h", Executable: "/nowhere"})
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(text(err), `start host "h": `) {
		t.Errorf("no executable: got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = Start(ctx, Options{Name: "h", Env: append(os.Environ(), "TEST_AGENT=hangs")})
	if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d > 10*time.Second { // it hangs for an hour
		t.Errorf("hangs: got %v after %s", err, d)
	}
	if left := named("nettoll"); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestInitIsForPID1(t *testing.T) {
	var said strings.Builder
	if got := Init([]string{"--name", "h"}, &said); got != exitUsage ||
		!strings.Contains(said.String(), "only for PID 1") {
		t.Errorf("exit %d: %s", got, &said)
	}
	if got := Init([]string{"--what"}, &said); got != exitUsage {
		t.Errorf("exit %d: %s", got, &said)
	}
}

// Without privilege, the error says what is missing and what would help.
func TestUnprivileged(t *testing.T) {
	testnet.Root(t)
	cmd := exec.Command("/proc/self/exe", "start")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitUnsupported {
		t.Errorf("%v, want exit status %d", err, exitUnsupported)
	}
	want := `start host "h": make mount, PID, UTS, IPC and network namespaces: not supported here: missing CAP_SYS_ADMIN: ` +
		`fork/exec /proc/self/exe: operation not permitted (hint: run as root, or `
	if !strings.HasPrefix(string(out), want) {
		t.Errorf("got  %s\nwant %s…", out, want)
	}
}

// One second after SIGKILL of the controller, nothing is left.
func TestControllerIsKilled(t *testing.T) {
	testnet.Root(t)
	for _, tt := range []struct {
		name  string
		delay time.Duration // after its start; 0 means when everything is up
	}{
		{"all stands", 0},
		{"1 ms", time.Millisecond},
		{"3 ms", 3 * time.Millisecond},
		{"6 ms", 6 * time.Millisecond},
		{"10 ms", 10 * time.Millisecond},
		{"15 ms", 15 * time.Millisecond},
		{"25 ms", 25 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "controller")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.delay > 0 {
				time.Sleep(tt.delay)
			} else {
				if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
					t.Fatalf("controller: %q, %v", line, err)
				}
				// 2 × (PID 1, agent, 2 workers)
				if got := named("nettoll"); len(got) != 8 {
					t.Errorf("%d processes, want 8", len(got))
				}
			}
			watch := witness.Begin(t)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			_ = cmd.Wait()
			for len(named("nettoll")) > 0 {
				if d := time.Since(killed); d > time.Second {
					// A machine that is busy all the time would excuse everything.
					if seen := watch.Seen(t); d > time.Second+min(seen.Excuse(), 20*time.Second) {
						t.Fatalf("processes %v are left after %s (%v)", named("nettoll"), d, seen)
					}
				}
				time.Sleep(time.Millisecond)
			}
			t.Logf("all gone after %s", time.Since(killed))
		})
	}
}

// named lists the processes of this test (NETTOLL_TESTNET) whose command line begins with these arguments.
func named(args ...string) []int {
	var found []int
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range dirs {
		line, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(line), strings.Join(args, "\x00")+"\x00") {
			continue
		}
		if env, err := os.ReadFile(filepath.Join(filepath.Dir(f), "environ")); err != nil ||
			!strings.Contains(string(env), os.Getenv("NETTOLL_TESTNET")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// cost is the cost of a process.
type cost struct {
	CPU     time.Duration // user and system
	Private int           // kB
}

func ownCost() (cost, error) {
	cpu, err := ownCPU()
	if err != nil {
		return cost{}, err
	}
	private, err := private("self")
	return cost{cpu, private}, err
}

func ownCPU() (time.Duration, error) {
	var r syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), err
}

// private reads the private memory of a process, in kB (Documentation/filesystems/proc.rst, smaps_rollup).
func private(pid string) (int, error) {
	data, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	sum := 0
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); f[0] == "Private_Clean:" || f[0] == "Private_Dirty:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}

// spent reads the CPU time of a process more precisely than in clock ticks: the run time of its threads in ns
// (schedstat).
func spent(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, f := range tasks {
		data, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(strings.Fields(string(data))[0])
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// BenchmarkStart reports the cost of a host until its agent has answered, in ms: the CPU time of PID 1, of the agent
// and of this process, which pays for making the namespaces.
func BenchmarkStart(b *testing.B) {
	testnet.Root(b)
	var init, agents, own time.Duration
	for b.Loop() {
		before, err := ownCPU()
		if err != nil {
			b.Fatal(err)
		}
		h, err := Start(b.Context(), Options{Name: "h"})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		after, err := ownCPU()
		if err != nil {
			b.Fatal(err)
		}
		own += after - before
		a, err := spent(h.PID())
		if err != nil {
			b.Fatal(err)
		}
		init += a
		for _, p := range named("nettoll", "agent") {
			a, err := spent(p)
			if err != nil {
				b.Fatal(err)
			}
			agents += a
		}
		_ = h.Close()
		b.StartTimer()
	}
	b.ReportMetric(own.Seconds()*1e3/float64(b.N), "ms-parent/op")
	b.ReportMetric(init.Seconds()*1e3/float64(b.N), "ms-init/op")
	b.ReportMetric(agents.Seconds()*1e3/float64(b.N), "ms-agent/op")
}

// BenchmarkGeneration starts and ends as many hosts as a generation of the default experiment has.
func BenchmarkGeneration(b *testing.B) {
	testnet.Root(b)
	const n = 36
	for b.Loop() {
		hosts := make([]*Host, n)
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				var err error
				if hosts[i], err = Start(b.Context(), Options{Name: fmt.Sprintf("h%d", i)}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		for _, h := range hosts {
			wg.Go(func() { _ = h.Close() })
		}
		wg.Wait()
	}
}

// BenchmarkStartWorker reports the cost of a worker until it is ready.
func BenchmarkStartWorker(b *testing.B) {
	h := begin(b, Options{Name: "h"})
	var sum cost
	for b.Loop() {
		w, err := h.Start(b.Context(), host.WorkerSpec{ID: "w"})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		var c cost
		if err := w.Call(b.Context(), "cost", nil, &c); err != nil {
			b.Fatal(err)
		}
		sum.CPU += c.CPU
		sum.Private += c.Private
		_ = w.Kill()
		b.StartTimer()
	}
	b.ReportMetric(sum.CPU.Seconds()*1e3/float64(b.N), "ms-cpu/op")
	b.ReportMetric(float64(sum.Private)/float64(b.N), "kB-private/op")
}

// The error about a call without an answer names the process that is stopped.
func TestStopped(t *testing.T) {
	h := begin(t, Options{Name: "h"})
	w, err := h.Start(t.Context(), host.WorkerSpec{ID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	child := func(of int) int {
		all, err := procfs.ReadPrograms()
		if err != nil {
			t.Fatal(err)
		}
		for pid, p := range all {
			if p.Parent == of {
				return pid
			}
		}
		t.Fatalf("process %d has no child", of)
		return 0
	}
	served := child(h.PID())
	worker := child(served)
	// A call that has to succeed has time for it, also on a busy machine.
	within := func(fails bool, call func(context.Context) error) error {
		limit := 10 * time.Second
		if fails {
			limit = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return call(ctx)
	}
	ask := func(ctx context.Context) error { return w.Call(ctx, "pid", nil, nil) }
	for _, c := range []struct {
		pid              int
		ofHost, ofWorker string
	}{
		{worker, "", fmt.Sprintf("worker w (process %d) is stopped (SIGSTOP)", worker)},
		{
			served, fmt.Sprintf("agent of h (process %d) is stopped (SIGSTOP)", served),
			fmt.Sprintf("agent of h (process %d) is stopped (SIGSTOP)", served),
		},
	} {
		if err := syscall.Kill(c.pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ofHost, ofWorker := within(c.ofHost != "", h.Verify), within(true, ask)
		if err := syscall.Kill(c.pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if (ofHost != nil) != (c.ofHost != "") || !strings.HasSuffix(text(ofHost), c.ofHost) ||
			!strings.HasSuffix(text(ofWorker), c.ofWorker) || !errors.Is(ofWorker, context.DeadlineExceeded) {
			t.Errorf("with process %d stopped: host: %v; worker: %v", c.pid, ofHost, ofWorker)
		}
		ofHost, ofWorker = within(false, h.Verify), within(false, ask)
		if ofHost != nil || ofWorker != nil {
			t.Errorf("after process %d went on: host: %v; worker: %v", c.pid, ofHost, ofWorker)
		}
	}
}
