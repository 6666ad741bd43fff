package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
)

// The agent of these tests starts the test binary as its workers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := work(os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "worker: %v\n", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testnet.Main(m)
}

// facts are what a worker sees of its own process.
type facts struct {
	Name  string
	CPUs  []int
	PID   int
	GC    int
	Env   map[string]string
	Files map[string]string
}

func work(args []string) error {
	given, err := Args(args)
	if err != nil {
		return err
	}
	files, err := process.Inherited(given.Files)
	if err != nil {
		return err
	}
	switch given.Name {
	case "does-not-start":
		return errors.New("this one does not start")
	case "says-nothing":
		time.Sleep(time.Hour)
	case "says-rubbish":
		_, _ = os.Stdout.WriteString("Hello, I am a worker.\n")
		time.Sleep(time.Hour)
	}
	return protocol.Serve(context.Background(), os.Stdin, os.Stdout, protocol.Methods{
		"echo": func(_ context.Context, p json.RawMessage) (any, error) { return p, nil },
		"facts": protocol.Method(func(context.Context, struct{}) (facts, error) {
			f := facts{Name: given.Name, PID: os.Getpid(), Env: map[string]string{}, Files: map[string]string{}}
			f.GC = debug.SetGCPercent(-1)
			for _, e := range []string{"GOGC", "GODEBUG", "GOMAXPROCS"} {
				f.Env[e] = os.Getenv(e)
			}
			for n, file := range files {
				data, err := io.ReadAll(io.NewSectionReader(file, 0, 100))
				if err != nil {
					return f, err
				}
				f.Files[n] = string(data)
			}
			// Every thread of the process inherited the affinity.
			threads, err := os.ReadDir("/proc/self/task")
			if err != nil {
				return f, err
			}
			for _, th := range threads {
				var tid int
				_, _ = fmt.Sscan(th.Name(), &tid)
				cpus, err := process.Affinity(tid)
				if err != nil {
					return f, err
				}
				f.CPUs = append(f.CPUs, cpus...)
			}
			slices.Sort(f.CPUs)
			f.CPUs = slices.Compact(f.CPUs)
			return f, nil
		}),
		"fail": protocol.Method(func(context.Context, struct{}) (any, error) { return nil, errors.New("open socket: no") }),
		"unsupported": protocol.Method(func(context.Context, struct{}) (any, error) {
			return nil, &linux.UnsupportedError{What: "set it", Missing: "it", Hint: "get it"}
		}),
		"wait":  protocol.Method(func(ctx context.Context, _ struct{}) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
		"panic": protocol.Method(func(context.Context, struct{}) (any, error) { go panic("of the worker"); select {} }),
		"exit": protocol.Method(func(_ context.Context, code [1]int) (any, error) {
			for i := range 30 {
				fmt.Fprintf(os.Stderr, "line %d\n", i)
			}
			os.Exit(code[0])
			return nil, nil
		}),
		"stop": protocol.Method(func(context.Context, struct{}) (any, error) {
			return nil, syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}),
		"mute":  protocol.Method(func(context.Context, struct{}) (any, error) { return nil, os.Stdout.Close() }),
		"close": protocol.Method(func(context.Context, struct{}) (any, error) { return nil, os.Stdin.Close() }),
	})
}

type duplex struct {
	io.Reader
	io.WriteCloser
}

// connect runs an agent in this process.
func connect(t *testing.T, c Config) *Host {
	t.Helper()
	testnet.Root(t)
	theirIn, out := pipe(t)
	in, theirOut := pipe(t)
	ended := make(chan error, 1)
	go func() { ended <- Serve(context.Background(), theirIn, theirOut, c) }()
	h, err := Connect(t.Context(), duplex{in, out}, Options{Name: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Error("the agent does not end with its input")
		}
	})
	return h
}

func pipe(t *testing.T) (*os.File, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

func start(t *testing.T, h *Host, id string, cpus ...int) host.Worker {
	t.Helper()
	w, err := h.Start(t.Context(), host.WorkerSpec{ID: id, CPUs: cpus})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func file(t *testing.T, content string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestWorker(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1")
	t.Setenv("GODEBUG", "madvdontneed=1")
	h := connect(t, Config{Files: map[string]*os.File{
		"board": file(t, "the board"), "ksoftirqd:0": file(t, "0 0 0"), "netns:host1": file(t, "secret"),
		host.OutsidePrefix + "run": file(t, "the machine"),
	}})
	w := start(t, h, "source@h1", 1)

	var f facts
	if err := w.Call(t.Context(), "facts", nil, &f); err != nil {
		t.Fatal(err)
	}
	f.PID = 0
	want := facts{
		Name: "source@h1", CPUs: []int{1}, GC: -1,
		Env:   map[string]string{"GOGC": "off", "GODEBUG": "madvdontneed=1,asyncpreemptoff=1", "GOMAXPROCS": ""},
		Files: map[string]string{"board": "the board", "ksoftirqd:0": "0 0 0"},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if cpus, err := process.Affinity(0); err != nil || len(cpus) != runtime.NumCPU() {
		t.Errorf("this process is left on CPUs %v, %v", cpus, err)
	}

	var echo map[string][]int
	if err := w.Call(t.Context(), "echo", map[string][]int{"a": {1, 2}}, &echo); err != nil || len(echo["a"]) != 2 {
		t.Errorf("echo: got %v, %v", echo, err)
	}
	if err := w.Call(t.Context(), "fail", nil, nil); text(err) != `worker "source@h1": open socket: no` {
		t.Errorf("fail: got %v", err)
	}
	if err := w.Call(t.Context(), "none", nil,
		nil); text(err) != `worker "source@h1": call "none": the peer does not know this method` {
		t.Errorf("none: got %v", err)
	}
	err := w.Call(t.Context(), "unsupported", nil, nil)
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != "it" || u.Hint != "get it" {
		t.Errorf("unsupported: got %#v", err)
	}
	if _, err := h.Start(t.Context(),
		host.WorkerSpec{ID: "source@h1"}); text(err) != `host "h1": start worker "source@h1": worker "source@h1" already runs with number 1` {
		t.Errorf("started twice: got %v", err)
	}
	if err := w.Err(); err != nil {
		t.Errorf("alive, and yet: %v", err)
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	<-w.Done()
	if err := w.Err(); err != nil {
		t.Errorf("after an end that was asked for: %v", err)
	}
	if err := w.Call(t.Context(), "echo", nil, nil); text(err) != `worker "source@h1" was ended` {
		t.Errorf("call after the end: got %v", err)
	}
	if err := w.Kill(); err != nil {
		t.Errorf("killed twice: %v", err)
	}
	start(t, h, "source@h1") // the name is free again
}

// What a worker does that does not answer is in the error, as the kernel tells it.
var saysNothing = regexp.MustCompile(`^host "h1": start worker "says-nothing": context deadline exceeded: process \d+ ` +
	`\(\S+\) is in state S(, in the kernel at \w+)?$`)

func TestWorkerThatDoesNotStart(t *testing.T) {
	h := connect(t, Config{})
	for _, tt := range []struct {
		spec host.WorkerSpec
		want string
	}{
		{host.WorkerSpec{ID: "does-not-start"}, "host \"h1\": worker \"does-not-start\" died: exit status 1; its last " +
			"lines:\n\tworker: this one does not start"},
		{
			host.WorkerSpec{ID: "says-rubbish"},
			`host "h1": worker "says-rubbish" died: signal: killed (the connection ended: read frame: invalid length 1214606444 (valid: 1 to 67108864))`,
		},
		{
			host.WorkerSpec{ID: "a", CPUs: []int{1, 1000}},
			`host "h1": start worker "a": set the affinity of thread 0 to CPUs [1 1000]: the kernel grants [1] only`,
		},
		{
			host.WorkerSpec{ID: "a", CPUs: []int{-1}},
			`host "h1": start worker "a": set the affinity of thread 0: invalid CPU -1 (valid: 0 to 1023)`,
		},
	} {
		w, err := h.Start(t.Context(), tt.spec)
		if text(err) != tt.want {
			t.Errorf("got %v, %v, want %s", w, err, tt.want)
		}
	}
	// The worker has to be past its own start by then, and the agent has a fifth of the time to kill it and to answer.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	begin := time.Now()
	if _, err := h.Start(ctx, host.WorkerSpec{ID: "says-nothing"}); !errors.Is(err, context.DeadlineExceeded) ||
		!saysNothing.MatchString(text(err)) {
		t.Errorf("says-nothing: got %v, want %v", err, saysNothing)
	}
	if d := time.Since(begin); d > 30*time.Second { // the worker sleeps for an hour
		t.Errorf("says-nothing: ended after %s", d)
	}
	eventually(t, "the silent worker is gone", func() bool { return len(children(t)) == 0 })

	none := connect(t, Config{Executable: "/nowhere/nettoll"})
	if _, err := none.Start(t.Context(), host.WorkerSpec{ID: "a"}); !errors.Is(err, os.ErrNotExist) &&
		!strings.Contains(text(err), `start worker "a": fork/exec /nowhere/nettoll: no such file`) {
		t.Errorf("no executable: got %v", err)
	}
}

// However a worker dies, calls that wait for it fail at once with its name and the reason, and Done is closed.
func TestWorkerDies(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector lets a process linger for a second
	h := connect(t, Config{})
	var last []string
	for i := 10; i < 30; i++ {
		last = append(last, fmt.Sprintf("line %d", i))
	}
	for _, tt := range []struct {
		name   string
		method string
		params any
		want   string
	}{
		{"exit", "exit", []int{3}, "worker \"w\" died: exit status 3; its last lines:\n\t" + strings.Join(last, "\n\t")},
		{"exit 0", "exit", []int{0}, "worker \"w\" died: exit status 0; its last lines:\n\t" + strings.Join(last, "\n\t")},
		{"panic", "panic", nil, "worker \"w\" died: exit status 2: panic: of the worker\n\t"},
		{"no more output", "mute", nil, "worker \"w\" died: "},
		{"signal", "", nil, "worker \"w\" died: signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t, h, "w")
			var f facts
			if err := w.Call(t.Context(), "facts", nil, &f); err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			go func() { waiting <- w.Call(t.Context(), "wait", nil, nil) }()
			time.Sleep(10 * time.Millisecond)
			begin := time.Now()
			if tt.method == "" {
				if err := syscall.Kill(f.PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			} else if err := w.Call(t.Context(), tt.method, tt.params, nil); !strings.HasPrefix(text(err), tt.want) {
				t.Errorf("the call that killed it: got %v, want %s", err, tt.want)
			}
			if err := <-waiting; !strings.HasPrefix(text(err), tt.want) {
				t.Errorf("another call: got %v, want %s", err, tt.want)
			}
			<-w.Done()
			if d := time.Since(begin); d > 10*time.Second { // the calls have no end of their own
				t.Errorf("known after %s", d)
			}
			if err := w.Err(); !strings.HasPrefix(text(err), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if err := w.Call(t.Context(), "echo", nil, nil); !strings.HasPrefix(text(err), tt.want) {
				t.Errorf("a later call: got %v, want %s", err, tt.want)
			}
			if err := w.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A worker that hangs does not block a call longer than its context, does not block other workers, and can be killed.
func TestWorkerHangs(t *testing.T) {
	h := connect(t, Config{})
	w, other := start(t, h, "w"), start(t, h, "other")
	var f facts
	if err := w.Call(t.Context(), "facts", nil, &f); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(f.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	took := make([]time.Duration, 20)
	watch := witness.Begin(t)
	for i := range took {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			begin := time.Now()
			err := w.Call(ctx, "echo", []string{strings.Repeat("x", 100_000)}, nil) // more than a pipe holds
			if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(text(err), `worker "w": `) {
				t.Errorf("got %v", err)
			}
			took[i] = time.Since(begin)
		})
	}
	wg.Wait()
	if seen := watch.Seen(t); slices.Max(took) > 500*time.Millisecond+seen.Excuse() {
		t.Errorf("a deadline of 50 ms took up to %s (%v)", slices.Max(took), seen)
	}
	if err := other.Call(t.Context(), "echo", nil, nil); err != nil {
		t.Errorf("another worker: %v", err)
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	<-w.Done()
}

func TestExec(t *testing.T) {
	h := connect(t, Config{Steps: host.Steps()})
	got, err := h.Exec(t.Context(), host.Command{
		Args: []string{"sh", "-c", "echo out; echo err >&2; grep Cpus_allowed_list /proc/self/status; exit 3"},
		CPUs: []int{1},
	})
	want := host.Output{Stdout: []byte("out\nCpus_allowed_list:\t1\n"), Stderr: []byte("err\n"), Exit: 3}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = h.Exec(t.Context(), host.Command{Args: []string{"sh", "-c", "kill -9 $$"}})
	if err != nil || got.Exit != 137 {
		t.Errorf("killed: got %v, %v", got, err)
	}
	_, err = h.Exec(t.Context(), host.Command{Args: []string{"no-such-program"}})
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != `program "no-such-program"` {
		t.Errorf("no program: got %v", err)
	}
	if _, err = h.Exec(t.Context(), host.Command{}); text(err) != `host "h1": exec: no program given` {
		t.Errorf("no arguments: got %v", err)
	}
	if _, err = h.Exec(t.Context(), host.Command{Namespace: "none", Args: []string{"true"}}); err == nil {
		t.Error("ran in a namespace that is none")
	}
	if _, err = h.Exec(t.Context(),
		host.Command{Args: []string{"yes"}}); text(err) != `host "h1": exec "yes": its output exceeds 16777216 bytes` {
		t.Errorf("endless output: got %v", err)
	}
	// If the context ends, the command ends with its children.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = h.Exec(ctx, host.Command{Args: []string{"sh", "-c", "sleep 99 & sleep 98; true"}}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("sleep: got %v", err)
	}
	eventually(t, "sleep is gone", func() bool { return len(children(t)) == 0 })
}

func TestApplyAndExecInside(t *testing.T) {
	h := connect(t, Config{Steps: host.Steps()})
	plan := host.Plan{Steps: []host.Step{host.Namespace{Name: "src0"}}}
	if err := h.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if err := h.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	inside, err := h.Exec(t.Context(), host.Command{Namespace: "src0", Args: []string{"readlink", "/proc/self/ns/net"}})
	if err != nil {
		t.Fatal(err)
	}
	outside, err := h.Exec(t.Context(), host.Command{Args: []string{"readlink", "/proc/self/ns/net"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(inside.Stdout) == 0 || string(inside.Stdout) == string(outside.Stdout) {
		t.Errorf("inside %q, outside %q", inside.Stdout, outside.Stdout)
	}
	if err := h.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	few := connect(t, Config{Steps: map[string]func() host.Step{"veth": host.Steps()["veth"]}})
	if err := few.Apply(t.Context(),
		plan); text(err) != `host "h1": decode plan: step 1: unknown kind "namespace" (known: veth)` {
		t.Errorf("unknown step: got %v", err)
	}
}

// crowd is a step that counts how many threads may run Go code while its cost is measured.
type crowd struct{ host.Namespace }

func (crowd) Kind() string { return "crowd" }

func (crowd) MeasureCost(_ context.Context, k *host.Kernel) error {
	k.Metric("threads", float64(runtime.GOMAXPROCS(0)))
	return nil
}

// An agent has one thread for Go code, as its environment says, and more while costs are measured.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	h := connect(t, Config{Steps: map[string]func() host.Step{"crowd": func() host.Step { return &crowd{} }}})
	if err := h.Apply(t.Context(), host.Plan{Steps: []host.Step{crowd{host.Namespace{Name: "src0"}}}}); err != nil {
		t.Fatal(err)
	}
	report, err := h.MeasureCost(t.Context())
	if n := report.Metrics["threads"]; err != nil || n != costThreads || runtime.GOMAXPROCS(0) != 1 {
		t.Errorf("%v threads while costs are measured, %d afterwards, error %v, want %d and 1", n, runtime.GOMAXPROCS(0),
			err, costThreads)
	}
	if err := h.Undo(t.Context()); err != nil {
		t.Error(err)
	}
}

// An agent can remove what an agent that is gone has applied, from the data that the first one returned.
func TestRemovedByAnotherAgent(t *testing.T) {
	containers := connect(t, Config{Steps: host.Steps()})
	if err := containers.Apply(t.Context(), host.Plan{
		Steps: []host.Step{host.Namespace{Name: "src0"}, host.Namespace{Name: "snk0"}},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containers.Undo(context.Background()); err != nil {
			t.Error(err)
		}
	})
	look := func() (state string) {
		t.Helper()
		for _, ns := range []string{"src0", "snk0"} {
			out, err := containers.Exec(t.Context(), host.Command{
				Namespace: ns, Args: []string{
					"sh", "-c", "cut -d: -f1 /proc/self/net/dev; cat /proc/sys/net/ipv4/ip_forward /proc/self/net/route",
				},
			})
			if err != nil || out.Exit != 0 {
				t.Fatalf("%v: %s", err, out.Stderr)
			}
			state += string(out.Stdout)
		}
		return state
	}
	before := look()
	first := connect(t, Config{Steps: host.Steps()})
	if err := first.Apply(t.Context(), host.Plan{Steps: []host.Step{
		host.Veth{
			NS: "src0", Name: "eth0", Addresses: []string{"10.9.0.1/24"}, PeerNS: "snk0", PeerName: "eth0",
			PeerAddresses: []string{"10.9.0.2/24"},
		},
		host.Route{NS: "src0", To: "192.0.2.0/24", Via: "10.9.0.2"},
		host.Sysctl{NS: "snk0", Key: "net.ipv4.ip_forward", Value: "1"},
	}}); err != nil {
		t.Fatal(err)
	}
	during := look()
	kept, err := first.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != during || got == before {
		t.Errorf("the end of the agent changes what it has applied:\n%s\nwas\n%s", got, during)
	}
	for range 2 {
		if err := connect(t, Config{Steps: host.Steps()}).Remove(t.Context(), kept); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(before, look()); diff != "" {
			t.Errorf("removed, it is not as it was (-before +after):\n%s", diff)
		}
	}
}

// If the agent is gone, every call fails and every worker is done, with the reason.
func TestAgentEnds(t *testing.T) {
	testnet.Root(t)
	theirIn, out := pipe(t)
	in, theirOut := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, theirIn, theirOut, Config{}) }()
	h, err := Connect(t.Context(), duplex{in, out}, Options{
		Name: "h1", Why: func() error { return errors.New("signal: killed") },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, h, "w")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("agent: got %v", err)
	}
	<-w.Done()
	for what, got := range map[string]error{
		`worker "w" died: host "h1" ended: signal: killed`: w.Err(),
		`host "h1" ended: signal: killed`:                  h.Verify(t.Context()),
	} {
		if text(got) != what && !strings.HasPrefix(text(got), `worker "w" died: `) {
			t.Errorf("got %v, want %s", got, what)
		}
	}
	if _, err := h.Start(t.Context(), host.WorkerSpec{ID: "v"}); text(err) != `host "h1" ended: signal: killed` {
		t.Errorf("start: got %v", err)
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if n := children(t); len(n) > 0 {
		t.Errorf("processes %v are left", n)
	}
}

func TestConnectToNoAgent(t *testing.T) {
	theirIn, out := pipe(t)
	in, theirOut := pipe(t)
	_ = theirIn.Close()
	_ = theirOut.Close()
	_, err := Connect(t.Context(), duplex{in, out}, Options{
		Name: "h1", Why: func() error { return errors.New("exit status 2; its last lines:\n\tno") },
	})
	if want := "host \"h1\" ended: exit status 2; its last lines:\n\tno"; text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestArgs(t *testing.T) {
	type result struct {
		Arguments

		Err string
	}
	for _, tt := range []struct {
		args []string
		want result
	}{
		{nil, result{}},
		{[]string{"--name", "a", "--container", "c", "--file", "x=3", "--file", "netns:h=4"}, result{Arguments{Name: "a", Container: "c", Files: []string{"x=3", "netns:h=4"}}, ""}},
		{[]string{"--name"}, result{Err: `missing value after argument "--name"`}},
		{[]string{"--nam", "a"}, result{Err: `unknown argument "--nam" (known: --name NAME, --container NAME, --handed SOCKET, --cgroups keep, --file NAME=FD)`}},
	} {
		got, err := Args(tt.args)
		if diff := cmp.Diff(tt.want, result{got, text(err)}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.args, diff)
		}
	}
}

// children lists the children of this process that are alive.
func children(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c",
		`for p in /proc/[0-9]*; do read -r pid name state ppid rest < $p/stat 2>/dev/null; [ "$ppid" = $PPID ] && [ $pid != $$ ] && echo $pid$name; done; true`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 500 {
		if f() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("not so after 10 s: %s", what)
}
