package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "run" {
		if err := run(context.Background(), os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testnet.Main(m)
}

// The points at which a run is killed.
const (
	begun  = "the step is noted, and nothing is found out"
	found  = "what is there is noted, and nothing is moved"
	made   = "it is made"
	undone = "it is given back, and that is not noted"
	ended  = "it is given back"
)

// steps returns the steps of a run: a NIC of the machine goes into a container.
func steps() []host.Step {
	return []host.Step{
		host.Namespace{Name: "c"},
		host.MoveLink{
			FromNS: host.Machine, From: "nic0", NS: "c", Name: "nic0", MTU: 1400, Addresses: []string{"198.18.1.0/16"},
		},
	}
}

// paused is a journal that reports when a point is reached, and waits to be killed.
type paused struct {
	host.Journal
	at string
}

func (p paused) Write(n host.Note) error {
	if n.Removed && p.at == undone {
		wait()
	}
	err := p.Journal.Write(n)
	if n.Step != nil && p.at == begun || n.Kept != nil && p.at == found {
		wait()
	}
	return err
}

func wait() {
	fmt.Println("now")
	select {}
}

// run is the main function of a run that is killed at a point.
func run(ctx context.Context, at, dir, spaces string) error {
	j, err := journal.Place{Dir: dir, Steps: host.Steps()}.Begin(ctx)
	if err != nil {
		return err
	}
	machine, err := netns.Current()
	if err != nil {
		return err
	}
	k, err := host.NewKernel(host.KernelConfig{
		Dir: spaces, Run: spaces, Files: map[string]*os.File{"netns:machine": machine}, Journal: paused{j.Lab("a"), at},
	})
	if err != nil {
		return err
	}
	var s host.Stack
	if err := s.Apply(ctx, k, host.Plan{Steps: steps()}); err != nil {
		return err
	}
	if at == made {
		wait()
	}
	if err := s.Undo(ctx, k); err != nil {
		return err
	}
	wait()
	return nil
}

// bench is a machine with a NIC, and a directory for journals.
type bench struct {
	*testnet.Machine
	place journal.Place
	links *link.Handle
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Machine: testnet.New(t), place: journal.Place{
		Dir: filepath.Join(t.TempDir(), "nettoll", "journals"), Steps: host.Steps(),
	}}
	testnet.Skip(t, b.Do(func() (err error) {
		b.links, err = link.Open()
		return err
	}))
	t.Cleanup(b.links.Close)
	b.card(t, "02:00:00:00:00:05", true)
	return b
}

// card makes the NIC, which is up or down.
func (b *bench) card(t *testing.T, mac string, up bool) {
	t.Helper()
	k := b.kernel(t, nil)
	var s host.Stack
	if err := s.Apply(t.Context(), k, host.Plan{
		Steps: []host.Step{host.Veth{Name: "nic0", MAC: mac, MTU: 1500, PeerName: "wire0"}},
	}); err != nil {
		testnet.Skip(t, err)
	}
	if !up {
		l, err := b.links.ByName("nic0")
		if err == nil {
			err = b.links.SetUp(l.Index, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bench) kernel(t *testing.T, j host.Journal) *host.Kernel {
	t.Helper()
	return steptest.Kernel(t, b.Machine, host.KernelConfig{
		Files: map[string]*os.File{"netns:machine": b.NS}, Journal: j,
	})
}

func (b *bench) state(t *testing.T) (state map[string]string) {
	t.Helper()
	if err := b.Do(func() (err error) {
		state, err = testnet.State()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return state
}

// start starts a run and returns when it has reached its point.
func (b *bench) start(t *testing.T, at string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "run", at, b.place.Dir, b.Dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "now\n" {
		t.Fatalf("the run says %q, %v", line, err)
	}
	return cmd
}

// kill kills a run. The kernel then ends its container, and returns a real NIC unchanged. It would remove an end of a
// veth, so kill returns that itself.
func (b *bench) kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	c, err := netns.Open(filepath.Join(b.Dir, "c"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := netns.Do(int(c.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		l, err := h.ByName("nic0")
		if errors.Is(err, link.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return h.Move(l.Index, b.NS)
	}); err != nil {
		t.Fatal(err)
	}
	if err := netns.Unbind(filepath.Join(b.Dir, "c")); err != nil {
		t.Fatal(err)
	}
}

// clean cleans up on the machine.
func (b *bench) clean(t *testing.T) (results []journal.Result) {
	t.Helper()
	if err := b.Do(func() (err error) {
		results, err = b.place.Clean(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return results
}

func (b *bench) files(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.place.Dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// At whatever point a run is killed, cleaning up restores what its journal names. While the run lives, nothing is
// changed.
func TestKilled(t *testing.T) {
	for _, c := range []struct {
		at      string
		removed bool // the journal still names the step
		moved   bool // the NIC is in the container, or as the container has left it
	}{
		{begun, true, false}, {found, true, false}, {made, true, true}, {undone, true, false}, {ended, false, false},
	} {
		t.Run(c.at, func(t *testing.T) {
			b := newBench(t)
			before := b.state(t)
			cmd := b.start(t, c.at)
			during := b.state(t)
			if _, there := during["link nic0"]; there == c.moved {
				t.Errorf("the card is on the machine: %t: this shows something else than it says", there)
			}
			for _, r := range b.clean(t) {
				if r.Left != "its run is still active" || r.Err != nil || r.Removed != nil || r.PID != cmd.Process.Pid {
					t.Errorf("while it lives: %+v", r)
				}
			}
			if diff := cmp.Diff(during, b.state(t)); diff != "" || len(b.files(t)) != 1 {
				t.Errorf("while it lives, cleaning up changes something (-before +after), and the journals are %q:\n%s", b.files(t),
					diff)
			}
			b.kill(t, cmd)
			if changed := cmp.Diff(before, b.state(t)) != ""; changed != c.moved {
				t.Errorf("when it was killed, the machine has changed: %t", changed)
			}
			results := b.clean(t)
			var want []string
			if c.removed {
				want = []string{steps()[1].String()}
			}
			if len(results) != 1 || results[0].Err != nil || results[0].Left != "" || cmp.Diff(want, results[0].Removed) != "" {
				t.Errorf("cleaned up: %+v, want %q to be removed", results, want)
			}
			if diff := cmp.Diff(before, b.state(t)); diff != "" {
				t.Errorf("cleaned up, the machine is not as it was (-before +after):\n%s", diff)
			}
			if left := b.files(t); left != nil {
				t.Errorf("there still is %q", left)
			}
			if again := b.clean(t); again != nil {
				t.Errorf("cleaned up once more: %+v", again)
			}
		})
	}
}

// Another thing with the name of what was taken is not changed; nor is what has changed since.
func TestNothingElse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*testing.T, *bench)
	}{
		{"another card", func(t *testing.T, b *bench) {
			l, err := b.links.ByName("nic0")
			if err == nil {
				err = b.links.Delete(l.Index)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.card(t, "02:00:00:00:00:06", false)
		}},
		{"another MTU", func(t *testing.T, b *bench) {
			l, err := b.links.ByName("nic0")
			if err == nil {
				err = errors.Join(b.links.SetMTU(l.Index, 1300), b.links.SetUp(l.Index, true))
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			cmd := b.start(t, made)
			b.kill(t, cmd)
			c.change(t, b)
			before := b.state(t)
			if results := b.clean(t); len(results) != 1 || results[0].Err != nil {
				t.Errorf("cleaned up: %+v", results)
			}
			if diff := cmp.Diff(before, b.state(t)); diff != "" {
				t.Errorf("it was touched (-before +after):\n%s", diff)
			}
		})
	}
}

// A run that begins first returns what a dead run had taken: otherwise it would record the state that the dead run
// left.
func TestBeginCleans(t *testing.T) {
	b := newBench(t)
	before := b.state(t)
	b.kill(t, b.start(t, made))
	if cmp.Diff(before, b.state(t)) == "" {
		t.Fatal("the dead run has left nothing: this shows nothing")
	}
	if err := b.Do(func() error {
		j, err := b.place.Begin(t.Context())
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before, b.state(t)); diff != "" {
			t.Errorf("when another has begun, the machine is not as it was (-before +after):\n%s", diff)
		}
		if left := b.files(t); len(left) != 1 {
			t.Errorf("the journals are %q, want its own", left)
		}
		return j.Close()
	}); err != nil {
		t.Fatal(err)
	}
	if left := b.files(t); left != nil {
		t.Errorf("there still is %q", left)
	}
}

// If a host dies without returning what it took, its run recovers that, by lab. What is not recovered stays in the
// journal.
func TestRecover(t *testing.T) {
	b := newBench(t)
	before := b.state(t)
	var j *journal.Journal
	if err := b.Do(func() (err error) {
		j, err = b.place.Begin(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	k := b.kernel(t, j.Lab("a"))
	var s host.Stack
	if err := s.Apply(t.Context(), k, host.Plan{Steps: steps()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(); err != nil { // its agent is dead, and the container with it
		t.Fatal(err)
	}
	h, err := k.Links("c")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.ByName("nic0")
	if err == nil {
		err = errors.Join(h.Move(l.Index, b.NS), netns.Unbind(filepath.Join(b.Dir, "c")))
	}
	if err != nil {
		t.Fatal(err)
	}
	recovered := func(lab string) {
		t.Helper()
		if err := b.Do(func() error { return j.Recover(t.Context(), lab) }); err != nil {
			t.Error(err)
		}
	}
	dead := b.state(t)
	recovered("another")
	if diff := cmp.Diff(dead, b.state(t)); diff != "" {
		t.Errorf("another lab was recovered (-before +after):\n%s", diff)
	}
	for range 2 {
		recovered("a")
		if diff := cmp.Diff(before, b.state(t)); diff != "" {
			t.Errorf("recovered, the machine is not as it was (-before +after):\n%s", diff)
		}
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// What cannot be removed stays in the journal, which says so. An incomplete line means that nothing was made.
func TestJournalStays(t *testing.T) {
	b := newBench(t)
	begin := func() *journal.Journal {
		var j *journal.Journal
		if err := b.Do(func() (err error) {
			j, err = b.place.Begin(t.Context())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := begin()
	if err := j.Lab("a").Write(host.Note{ID: "1", Step: []byte(`{"kind":"moon"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := b.Do(func() error { return j.Recover(t.Context(), "a") }); err == nil ||
		!strings.Contains(err.Error(), `unknown kind "moon"`) {
		t.Errorf("Recover = %v", err)
	}
	if err := j.Close(); err == nil ||
		!strings.Contains(err.Error(), `not returned: {"kind":"moon"} (hint: run nettoll clean)`) {
		t.Errorf("Close = %v", err)
	}
	left := b.files(t)
	if len(left) != 1 {
		t.Fatalf("the journals are %q", left)
	}
	if err := os.Remove(left[0]); err != nil {
		t.Fatal(err)
	}
	j = begin()
	if _, err := io.WriteString(j.File(), `{"lab":"a","id":"2","step":{"kind":"mo`); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Lab("a").Write(host.Note{ID: "3", Step: []byte(`{"kind":"link","name":"none"}`)}),
		j.Lab("a").Write(host.Note{ID: "3", Removed: true})); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("Close where a line was cut off = %v", err)
	}
}

// After another boot, a NIC is where it was, and is not changed. A run in another PID namespace cannot be judged.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		left           string
	}{
		{"another boot", `"boot":"`, `"boot":"other-`, ""},
		{
			"another PID namespace", `"pids":"pid:[`, `"pids":"pid:[1`,
			"its process is in another PID namespace: clean up from there",
		},
		{
			"another network namespace", `"net":"net:[`, `"net":"net:[1`,
			"it was started in another network namespace: clean up from there",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.kill(t, b.start(t, made))
			before := b.state(t)
			path := b.files(t)[0]
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(string(data), c.old, c.new, 1)
			if text == string(data) {
				t.Fatalf("the journal has no %q:\n%s", c.old, data)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			results := b.clean(t)
			if len(results) != 1 || results[0].Err != nil || results[0].Left != c.left {
				t.Errorf("cleaned up: %+v", results)
			}
			if diff := cmp.Diff(before, b.state(t)); diff != "" {
				t.Errorf("it was touched (-before +after):\n%s", diff)
			}
			if gone := len(b.files(t)) == 0; gone != (c.left == "") {
				t.Errorf("the journal is gone: %t", gone)
			}
		})
	}
}

// A directory of another user, and a symbolic link in place of a journal, are refused.
func TestStrangers(t *testing.T) {
	b := newBench(t)
	need := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	need(os.MkdirAll(b.place.Dir, 0o700))
	victim := filepath.Join(t.TempDir(), "victim")
	need(os.WriteFile(victim, []byte("{}\n"), 0o600))
	need(os.Symlink(victim, filepath.Join(b.place.Dir, "1-x.jsonl")))
	results := b.clean(t)
	if len(results) != 1 || results[0].Err == nil || !strings.Contains(results[0].Err.Error(), "is not a regular file") {
		t.Errorf("with a symbolic link: %+v", results)
	}
	need(os.Chown(b.place.Dir, 4242, 4242))
	_, err := b.place.Clean(t.Context())
	if _, refused := errors.AsType[*owned.Error](err); !refused {
		t.Errorf("a stranger's directory: %v", err)
	}
	if _, err := b.place.Begin(t.Context()); err == nil {
		t.Error("a journal was begun in a stranger's directory")
	}
	need(os.Chown(b.place.Dir, 0, 0))
	// An agent that is still alive holds the lock: its run is dead, but nothing is changed until the agent ends.
	need(os.Remove(filepath.Join(b.place.Dir, "1-x.jsonl")))
	cmd := b.start(t, made)
	f, err := os.OpenFile(b.files(t)[0], os.O_RDONLY, 0)
	need(err)
	defer f.Close()
	b.kill(t, cmd)
	need(unix.Flock(int(f.Fd()), unix.LOCK_EX))
	before := b.state(t)
	results = b.clean(t)
	if len(results) != 1 || results[0].Err == nil ||
		!strings.Contains(results[0].Err.Error(), "another process still has its journal open") {
		t.Errorf("while an agent lives: %+v", results)
	}
	if diff := cmp.Diff(before, b.state(t)); diff != "" {
		t.Errorf("it was touched (-before +after):\n%s", diff)
	}
}
