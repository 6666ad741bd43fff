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

// Who is told that a step does not stand any more can tell whether a program of the host has died.
func TestAuditKnowsWhatDied(t *testing.T) {
	k, m := kernel(t, nil)
	s, step := new(host.Stack), new(mute)
	if err := m.Do(func() error {
		return errors.Join(s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{step}}), k.Watch())
	}); err != nil {
		testnet.Skip(t, err)
		t.Fatal(err)
	}
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
	k, m := kernel(t, nil)
	s := new(host.Stack)
	if err := m.Do(func() error {
		return errors.Join(s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{host.Namespace{Name: "c"}}}), k.Watch())
	}); err != nil {
		testnet.Skip(t, err)
		t.Fatal(err)
	}
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
