package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
)

// record notes what fakes do.
type record struct {
	mu    sync.Mutex
	list  []string
	meets chan struct{} // both sides of a meeting use it
}

func (r *record) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, what)
}

// meet waits for another fake that does the same now.
func (r *record) meet() error {
	select {
	case r.meets <- struct{}{}:
	case <-r.meets:
	case <-time.After(10 * time.Second):
		return errors.New("it is alone")
	}
	return nil
}

// alone is a step that is applied by itself.
type alone struct {
	name  string
	fails bool
	to    *record
}

func (alone) Kind() string     { return "alone" }
func (a alone) String() string { return a.name }
func (a alone) Apply(context.Context, *host.Kernel) error {
	if a.fails {
		return errors.New("it fails")
	}
	a.to.note("+" + a.name)
	return nil
}

func (a alone) Remove(context.Context, *host.Kernel) error {
	a.to.note("-" + a.name)
	return nil
}
func (alone) Verify(*host.Kernel) error { return nil }

// social is a step that is applied and removed only while another one is.
type social struct{ alone }

func (social) Kind() string     { return "social" }
func (social) Concurrent() bool { return true }
func (s social) Apply(ctx context.Context, k *host.Kernel) error {
	return errors.Join(s.to.meet(), s.alone.Apply(ctx, k))
}

func (s social) Remove(ctx context.Context, k *host.Kernel) error {
	return errors.Join(s.to.meet(), s.alone.Remove(ctx, k))
}

// Steps of one kind that can be applied at the same time are, and those around them wait for them.
func TestTogether(t *testing.T) {
	k, _ := kernel(t, nil)
	r := &record{meets: make(chan struct{})}
	p := host.Plan{Steps: []host.Step{
		alone{name: "first", to: r}, social{alone{name: "a", to: r}}, social{alone{name: "b", to: r}}, alone{name: "last", to: r},
	}}
	var s host.Stack
	if err := s.Apply(t.Context(), k, p); err != nil {
		t.Fatal(err)
	}
	if times := s.Times(); len(times) != 4 || slices.ContainsFunc(times, func(t host.StepTime) bool {
		return t.Apply.Began == 0 || t.Remove.Began != 0
	}) || times[3].Apply.Began < times[1].Apply.Began+int64(times[1].Apply.Took) {
		t.Errorf("times %+v, want four of Apply, the last after the others", times)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if times := s.Times(); len(times) != 4 || slices.ContainsFunc(times, func(t host.StepTime) bool {
		return t.Remove.Began == 0
	}) {
		t.Errorf("times %+v, want four of Remove", times)
	}
	slices.Sort(r.list[1:3])
	slices.Sort(r.list[5:7])
	if got, want := strings.Join(r.list, " "), "+first +a +b +last -last -a -b -first"; got != want {
		t.Errorf("the steps did %q, want %q", got, want)
	}
}

// shy is a step that can be applied beside others or, if it is solo, cannot.
type shy struct {
	social
	solo bool
}

func (shy) Kind() string       { return "shy" }
func (s shy) Concurrent() bool { return !s.solo }
func (s shy) Apply(ctx context.Context, k *host.Kernel) error {
	if !s.solo {
		return s.social.Apply(ctx, k)
	}
	time.Sleep(20 * time.Millisecond) // for those that do not wait
	return s.alone.Apply(ctx, k)
}

func (s shy) Remove(ctx context.Context, k *host.Kernel) error {
	if s.solo {
		return s.alone.Remove(ctx, k)
	}
	return s.social.Remove(ctx, k)
}

// Whether a step can be applied beside others of its kind is asked of each.
func TestSolo(t *testing.T) {
	k, _ := kernel(t, nil)
	r := &record{meets: make(chan struct{})}
	of := func(name string, solo bool) host.Step { return shy{social{alone{name: name, to: r}}, solo} }
	var s host.Stack
	if err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		of("first", true), of("a", false), of("b", false), of("last", true),
	}}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.list[1:3])
	if got, want := strings.Join(r.list, " "), "+first +a +b +last"; got != want {
		t.Errorf("the steps did %q, want %q", got, want)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}

// If a step fails, those beside it come to their end and are undone, later ones do not begin, and the error names it.
func TestTogetherFails(t *testing.T) {
	k, _ := kernel(t, nil)
	r := &record{meets: make(chan struct{})}
	var steps []host.Step
	for i := range 100 {
		steps = append(steps, beside{alone{name: fmt.Sprint(i), fails: i == 3, to: r}})
	}
	var s host.Stack
	err := s.Apply(t.Context(), k, host.Plan{Steps: steps})
	if err == nil || !strings.HasPrefix(err.Error(), "apply step 4 of 100 (3): it fails") {
		t.Errorf("error %v", err)
	}
	if s.Len() != 0 || len(s.Times()) != 0 {
		t.Errorf("%d steps are left, with %d times", s.Len(), len(s.Times()))
	}
	slices.Sort(r.list)
	for _, what := range r.list {
		if _, ok := slices.BinarySearch(r.list, "-"+what[1:]); !ok {
			t.Errorf("%s was not undone", what)
		}
	}
	if slices.Contains(r.list, "+99") {
		t.Error("the last one has begun")
	}
}

// beside is a step that can be applied beside others.
type beside struct{ alone }

func (beside) Kind() string     { return "beside" }
func (beside) Concurrent() bool { return true }
