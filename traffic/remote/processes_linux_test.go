package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// aloneVariable in the environment makes the test binary a worker with two threads.
	aloneVariable = "NETTOLL_REMOTE_WORKER"
	// windowsMethod returns the windows of the first thread of such a worker.
	windowsMethod = "windows"
)

// sleeps is an endpoint that waits for the close of its trials.
type sleeps struct {
	sample  traffic.Sample
	windows []traffic.Window
}

func (*sleeps) Prepare(uint64) {}
func (s *sleeps) Run(_ uint64, w traffic.Window) {
	s.windows = append(s.windows, w)
	time.Sleep(time.Duration(w.Close - clock.Now()))
}
func (s *sleeps) Sample() *traffic.Sample    { return &s.sample }
func (*sleeps) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (*sleeps) Facts() (sock.Facts, error)   { return sock.Facts{}, nil }
func (*sleeps) Close()                       {}

// serveAlone is the process of a worker, if this is one.
func serveAlone() bool {
	if os.Getenv(aloneVariable) == "" {
		return false
	}
	turn, ends := NewTurn(), []*sleeps{{}, {}}
	ready, ids := make(chan error, len(ends)), make(chan int, len(ends))
	for pair, e := range ends {
		go (&traffic.Thread{
			Turn: turn, Seat: traffic.Seat{Pair: pair}, Run: 1, Ready: ready, ThreadIDs: ids,
			Endpoint: func(int) traffic.Endpoint { return e },
		}).Serve()
	}
	for range ends {
		if err := <-ready; err != nil {
			panic(err)
		}
	}
	methods := turn.Methods()
	methods[windowsMethod] = protocol.Method(func(context.Context, struct{}) ([]traffic.Window, error) {
		turn.Ordered()
		return ends[0].windows, nil
	})
	_ = protocol.Serve(context.Background(), os.Stdin, os.Stdout, methods)
	return true
}

// start starts the process of a worker, which ends with the test.
func start(t *testing.T) (*exec.Cmd, *protocol.Client) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), aloneVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := protocol.Dial(out, in, nil)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = client.Close()
		_ = cmd.Wait() // it was killed
	})
	return cmd, client
}

// Two workers in processes of their own take turns; one that stops is missing, and one that dies is lost.
func TestProcesses(t *testing.T) {
	const trials, length = 10, 100 * time.Millisecond
	turns := New()
	var processes []*exec.Cmd
	var clients []*protocol.Client
	for i := range 2 {
		cmd, client := start(t)
		turns.Join(i, client.Call)
		processes, clients = append(processes, cmd), append(clients, client)
	}
	plan := traffic.CellPlan{Workers: []int{0, 1}, Threads: []int{2, 2}, Warm: 50 * time.Millisecond, Length: length}
	if err := turns.SetCell(0, plan); err != nil {
		t.Fatal(err)
	}
	two := func(int) int { return 2 }
	timings, err := turns.Run(t.Context(), make([]int, trials), two)
	if err != nil {
		t.Fatal(err)
	}
	var first []traffic.Window // of the first worker
	for i, client := range clients {
		var windows []traffic.Window
		if err := client.Call(t.Context(), windowsMethod, nil, &windows); err != nil || len(windows) != trials {
			t.Fatalf("windows of worker %d: %v, %v", i, err, windows)
		}
		if i == 0 {
			first = windows
		} else if diff := cmp.Diff(first, windows); diff != "" {
			t.Errorf("windows of two workers that read one clock (-worker 0 +worker 1):\n%s", diff)
		}
		for n, x := range timings {
			// They have the clock of this process, too: the error of the offset is all that differs.
			if apart := time.Duration(windows[n].Open - x.Opened); !x.Done || max(apart, -apart) > x.Skew {
				t.Errorf("trial %d of worker %d opened %v after the controller's time: %+v", n, i, apart, x)
			}
		}
	}
	slices.SortFunc(timings, func(x, y traffic.Timing) int { return int(x.Dead - y.Dead) })
	x := timings[trials/2]
	t.Logf("trial with the median dead time: %v, late %v, windows at most %v apart", x.Dead, x.Late, x.Skew)

	if err := signal(processes[1], "STOP"); err != nil {
		t.Fatal(err)
	}
	_, err = turns.Run(t.Context(), []int{0}, two)
	stalled, ok := errors.AsType[*traffic.StalledError](err)
	if !ok {
		t.Fatalf("error %v, want that worker 1 stalls", err)
	}
	want := traffic.StalledError{Missing: []traffic.Seat{{Worker: 1, Pair: 0}, {Worker: 1, Pair: 1}}}
	if diff := cmp.Diff(want, *stalled); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := signal(processes[1], "CONT"); err != nil {
		t.Fatal(err)
	}
	if timings, err := turns.Run(t.Context(), []int{0}, two); err != nil || !timings[0].Done {
		t.Errorf("after it went on: %v, %+v", err, timings)
	}

	plan.Length = 10 * time.Second
	if err := turns.SetCell(0, plan); err != nil {
		t.Fatal(err)
	}
	killed := make(chan int64, 1)
	go func() {
		time.Sleep(100 * time.Millisecond) // in the middle of the trial
		killed <- clock.Now()
		_ = processes[0].Process.Kill()
	}()
	_, err = turns.Run(t.Context(), []int{0}, two)
	after := time.Duration(clock.Now() - <-killed)
	if lost, ok := errors.AsType[*traffic.LostError](err); !ok || lost.Worker != 0 || after > gateLimit {
		t.Errorf("error %v, %v after the death of worker 0", err, after)
	}
}

func signal(cmd *exec.Cmd, name string) error {
	return exec.Command("kill", "-"+name, fmt.Sprint(cmd.Process.Pid)).Run()
}
