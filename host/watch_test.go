package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// mute is a step that speaks to a program. The program is killed while it does.
type mute struct{ kill func() error }

func (*mute) Kind() string                               { return "mute" }
func (*mute) String() string                             { return "a step that speaks to a program" }
func (*mute) Apply(context.Context, *host.Kernel) error  { return nil }
func (*mute) Remove(context.Context, *host.Kernel) error { return nil }
func (*mute) Silent()                                    {}
func (m *mute) Verify(*host.Kernel) error {
	if m.kill == nil {
		return nil
	}
	return errors.Join(m.kill(), errors.New("connection reset"))
}

// watched returns the kernel of a host with these steps, which is watched, and its machine.
func watched(t *testing.T, steps ...host.Step) (*host.Kernel, *host.Stack, *testnet.Machine) {
	t.Helper()
	k, m := kernel(t, nil)
	s := new(host.Stack)
	if err := m.Do(func() error {
		return errors.Join(s.Apply(t.Context(), k, host.Plan{Steps: steps}), k.Watch())
	}); err != nil {
		testnet.Skip(t, err)
		t.Fatal(err)
	}
	return k, s, m
}

// Who is told that a step does not stand any more can tell whether a program of the host has died.
func TestAuditKnowsWhatDied(t *testing.T) {
	step := new(mute)
	k, s, _ := watched(t, step)
	r, err := k.Start(host.Program{Name: "sleeps", Args: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Announce(); err != nil {
		t.Fatal(err)
	}
	step.kill = func() error { return unix.Kill(r.PID(), unix.SIGKILL) }
	a, err := s.Audit(k, true)
	if err != nil || !slices.Contains(a.Changes, "connection reset") {
		t.Errorf("%+v, %v", a, err)
	}
	if now := k.Programs(); len(now) != 1 || now[0].Died == "" {
		t.Errorf("%+v, want one that died", now)
	}
}

// A namespace in whose place another one stands, or none, is named.
func TestAuditKnowsWhatWasReplaced(t *testing.T) {
	k, s, m := watched(t, host.Namespace{Name: "c"})
	audit := func() string {
		a, err := s.Audit(k, true)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(a.Changes, "\n")
	}
	if got := audit(); got != "" {
		t.Errorf("before: %q", got)
	}
	path := k.Path("c")
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", m.NS.Fd()), path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if got, want := audit(), "namespace c: another one stands in its place"; got != want {
		t.Errorf("it was rebound: %q, want %q", got, want)
	}
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if got := audit(); got != "" {
		t.Errorf("put back: %q", got)
	}
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, want := audit(), "namespace c: removed from its place"; got != want {
		t.Errorf("it was removed: %q, want %q", got, want)
	}
}

// What audits look at in turns may have changed since the audit that looked at it last, which is not always the last.
func TestAuditKnowsSinceWhen(t *testing.T) {
	var steps []host.Step
	for i := range 6 {
		steps = append(steps, host.Namespace{Name: fmt.Sprintf("c%d", i)})
	}
	k, s, _ := watched(t, steps...)
	at, err := os.Open(k.Path("c0"))
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	for i, want := range []host.Audit{
		{}, // it looks at the host and the containers 0 to 2
		{}, // at the others
		{Changes: []string{"net.ipv4.conf.all.accept_local: 0 → 1, in namespace c0"}, Back: 2},
		{},
	} {
		a, err := s.Audit(k, false)
		if err != nil || !slices.Equal(a.Changes, want.Changes) || a.Back != want.Back {
			t.Errorf("audit %d: %q, %d back, %v; want %q, %d back", i, a.Changes, a.Back, err, want.Changes, want.Back)
		}
		if i > 0 {
			continue
		}
		if err := netns.Do(int(at.Fd()), func() error {
			return os.WriteFile("/proc/sys/net/ipv4/conf/all/accept_local", []byte("1"), 0)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkAudit audits a host of ten pairs of containers on a bridge.
func BenchmarkAudit(b *testing.B) {
	k, m := kernel(b, nil)
	s := new(host.Stack)
	if err := m.Do(func() error {
		return errors.Join(s.Apply(b.Context(), k, many(20)), k.Watch())
	}); err != nil {
		testnet.Skip(b, err)
		b.Fatal(err)
	}
	for b.Loop() {
		if a, err := s.Audit(k, false); err != nil || len(a.Changes) > 0 {
			b.Fatal(a.Changes, err)
		}
	}
}
