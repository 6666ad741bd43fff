package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
)

// keyed is a mark with keys whose renewal takes several stages.
type keyed struct {
	mark
	Stages int
	Error  error
}

func (keyed) Kind() string { return "keyed" }

func (s keyed) Rekey(_ context.Context, _ *host.Kernel, stage int) (bool, error) {
	*s.log = append(*s.log, "rekey "+s.Name)
	return stage+1 < s.Stages, s.Error
}

// Withdrawn steps are removed, last first, and applied again in their places; the other steps stay.
func TestWithdraw(t *testing.T) {
	k, _ := kernel(t, nil)
	var log []string
	step := func(name string) mark { return mark{Name: name, log: &log} }
	var s host.Stack
	all := host.Plan{Steps: []host.Step{step("a"), step("b"), step("c"), step("d")}}
	if err := s.Apply(t.Context(), k, all); err != nil {
		t.Fatal(err)
	}
	said := func() []string {
		defer func() { log = nil }()
		return slices.DeleteFunc(log, func(s string) bool { return strings.HasPrefix(s, "make") })
	}
	said()
	if err := s.Withdraw(t.Context(), k, host.Plan{Steps: []host.Step{step("b"), step("d")}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"remove d", "remove b"}, said()); diff != "" {
		t.Errorf("withdrawn (-want +got):\n%s", diff)
	}
	if err := s.Verify(t.Context(), k); err == nil {
		t.Error("the kernel agrees with what was withdrawn")
	}
	if err := s.Withdraw(t.Context(), k, host.Plan{Steps: []host.Step{step("b")}}); err == nil ||
		!strings.Contains(err.Error(), `withdraw "mark b": it is not applied`) {
		t.Errorf("withdrawn twice: %v", err)
	}
	if err := s.Restore(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apply b", "apply d"}, said()); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	if err := s.Withdraw(t.Context(), k, host.Plan{Steps: []host.Step{step("c")}}); err != nil {
		t.Fatal(err)
	}
	said()
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"remove d", "remove b", "remove a"}, said()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
}

// A step that cannot be applied again stays withdrawn, and can be restored later.
func TestRestoreFails(t *testing.T) {
	k, _ := kernel(t, nil)
	var log []string
	a, b := mark{Name: "a", log: &log}, mark{Name: "b", log: &log}
	var s host.Stack
	p := host.Plan{Steps: []host.Step{a, b}}
	if err := s.Apply(t.Context(), k, p); err != nil {
		t.Fatal(err)
	}
	if err := s.Withdraw(t.Context(), k, p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Restore(ctx, k); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := s.Restore(t.Context(), k); err != nil {
		t.Error(err)
	}
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}

// The steps with keys renew them, stage by stage. Without such a step, the error says that it is not supported.
func TestRekey(t *testing.T) {
	k, _ := kernel(t, nil)
	var log []string
	a := mark{Name: "a", log: &log}
	var none, s host.Stack
	if err := none.Apply(t.Context(), k, host.Plan{Steps: []host.Step{a}}); err != nil {
		t.Fatal(err)
	}
	if _, err := none.Rekey(t.Context(), k, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without keys: %v", err)
	}
	both := host.Plan{Steps: []host.Step{a, keyed{mark: a, Stages: 2}, keyed{mark: a}}}
	if err := s.Apply(t.Context(), k, both); err != nil {
		t.Fatal(err)
	}
	for stage, want := range []bool{true, false} {
		if more, err := s.Rekey(t.Context(), k, stage); err != nil || more != want {
			t.Errorf("stage %d: %t, %v, want %t", stage, more, err, want)
		}
	}
	var bad host.Stack
	no := errors.New("no")
	if err := bad.Apply(t.Context(), k, host.Plan{Steps: []host.Step{keyed{mark: a, Error: no}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Rekey(t.Context(), k, 0); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
}

// The use of programs grows with their work. A killed program is reported as dead, and a stopped one is not killed.
func TestUse(t *testing.T) {
	k, _ := kernel(t, nil)
	for name, script := range map[string]string{"busy": "while :; do :; done", "idle": "read x", "gone": "read x"} {
		r, err := k.Start(host.Program{Name: name, Args: []string{"sh", "-c", script}, Control: name != "busy"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := r.Stop(time.Second); err != nil {
				t.Error(err)
			}
		}()
	}
	if err := k.Running("gone").Stop(time.Second); err != nil {
		t.Fatal(err)
	}
	used := func() map[string]host.ProgramUse {
		all := map[string]host.ProgramUse{}
		for _, u := range k.Use(true) {
			all[u.Name] = u
		}
		return all
	}
	var now map[string]host.ProgramUse
	for deadline := time.Now().Add(10 * time.Second); now["busy"].CPU < 50*time.Millisecond; time.Sleep(time.Millisecond) {
		if now = used(); time.Now().After(deadline) {
			t.Fatalf("after 10 s a loop has used %v", now["busy"].CPU)
		}
	}
	if len(now) != 2 || now["idle"].CPU > now["busy"].CPU || now["idle"].Memory < 16<<10 || now["busy"].Memory > 64<<20 {
		t.Errorf("got %v, want two, the idle one with less CPU, and some memory", now)
	}
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	if left := used(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if err := k.Running("busy").Died(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("it died of %v", err)
	}
}
