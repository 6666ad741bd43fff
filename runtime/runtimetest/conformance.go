package runtimetest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// Fake is a runtime for tests that makes nothing.
type Fake struct{}

// Describe returns the description of the fake.
func (Fake) Describe() runtime.Description {
	return runtime.Description{Name: "fake", Summary: "makes nothing", Implementation: "kernel"}
}

// Containers returns no steps.
func (Fake) Containers([]runtime.Container, part.Params) ([]host.Step, error) { return nil, nil }

// Conformance runs the suite on a runtime. It skips checks that make containers if the machine does not allow that. The
// package's TestMain calls [testnet.Main].
func Conformance(t *testing.T, r runtime.Runtime) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t, r); errors.Is(err, errors.ErrUnsupported) {
				testnet.Skip(t, err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// check is one check of the suite. It returns an error for a wrong runtime, so that the suite itself can be tested.
type check struct {
	name string
	run  func(testing.TB, runtime.Runtime) error
}

func checks() []check {
	return []check{
		{"description", description}, {"pure", pure}, {"containers", containers}, {"containers undone from data", fromData},
	}
}

func description(_ testing.TB, r runtime.Runtime) error {
	d := r.Describe()
	if d.Name == "" || strings.ToLower(d.Name) != d.Name {
		return fmt.Errorf("the name is %q, want a word of small letters", d.Name)
	}
	if d.Summary == "" || strings.HasSuffix(d.Summary, ".") {
		return fmt.Errorf("the summary is %q, want a sentence without its full stop", d.Summary)
	}
	if known := []string{"kernel", "userspace"}; !slices.Contains(known, d.Implementation) {
		return fmt.Errorf("the implementation is %q (known: %s)", d.Implementation, strings.Join(known, ", "))
	}
	return nil
}

// usual are the parameters of a runtime if none are given.
func usual(r runtime.Runtime) part.Params {
	d := r.Describe()
	p, err := d.Params.Resolve("runtime "+d.Name, nil)
	if err != nil {
		panic(err) // its own defaults are wrong
	}
	return p
}

// own are containers with a namespace of their own.
func own() []runtime.Container {
	return []runtime.Container{{Name: "src0", Namespace: "src0"}, {Name: "snk0", Namespace: "snk0"}}
}

func pure(_ testing.TB, r runtime.Runtime) error {
	for _, list := range [][]runtime.Container{nil, own(), {{Name: "src0"}, {Name: "snk0"}}} {
		given := slices.Clone(list)
		first, err := r.Containers(list, usual(r))
		if err != nil {
			return err
		}
		second, err := r.Containers(list, usual(r))
		if err != nil {
			return err
		}
		if diff := cmp.Diff(first, second); diff != "" {
			return fmt.Errorf("the same containers, made twice (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(given, list); diff != "" {
			return fmt.Errorf("Containers changed what it was given (-before +after):\n%s", diff)
		}
	}
	if _, err := r.Containers([]runtime.Container{{Name: "src0", Namespace: "snk0"}}, usual(r)); err == nil {
		return errors.New("a container in the namespace of another is made, want an error")
	}
	return nil
}

// kernel is that of a machine, with a journal that forgets. Workers in its containers are this program.
func kernel(t testing.TB, m *testnet.Machine, run string) (*host.Kernel, error) {
	t.Helper()
	return kernelWith(t, m, run, forgetful{}, func(container string) *exec.Cmd {
		return &exec.Cmd{
			Path: "/proc/self/exe", Args: []string{"nettoll", "worker", "--name", container, "--container", container},
		}
	})
}

// kernelWith is that of a machine, with a journal and with the commands of workers.
func kernelWith(t testing.TB, m *testnet.Machine, run string, j host.Journal, worker func(string) *exec.Cmd) (
	k *host.Kernel, err error,
) {
	t.Helper()
	root, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = root.Close() })
	err = m.Do(func() (err error) {
		k, err = host.NewKernel(host.KernelConfig{
			Files: map[string]*os.File{host.OutsidePrefix + "test": root},
			Dir:   m.Dir, Run: run, Journal: j, Worker: worker,
		})
		return err
	})
	return k, err
}

// Kernel returns the kernel of a machine with workers, as the suite has it. The test closes it.
func Kernel(t testing.TB, m *testnet.Machine) *host.Kernel {
	t.Helper()
	k, err := kernel(t, m, runDir(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// runDir is the directory of programs. Its path is short: sockets are in it, whose paths have at most 107 bytes.
func runDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "") //nolint:usetesting // the path of t.TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

type forgetful struct{}

func (forgetful) Write(host.Note) error { return nil }

// containers makes containers, checks that their namespaces exist, and checks that nothing of them is left.
func containers(t testing.TB, r runtime.Runtime) error {
	m := testnet.New(t)
	k, err := kernel(t, m, runDir(t))
	if err != nil {
		return err
	}
	defer k.Close()
	steps, err := r.Containers(own(), usual(r))
	if err != nil {
		return err
	}
	var s host.Stack
	for range 2 {
		if err := s.Apply(t.Context(), k, host.Plan{Steps: steps}); err != nil {
			return err
		}
		err := s.Verify(t.Context(), k)
		for _, c := range own() {
			err = errors.Join(err, k.Do(c.Namespace, func() error { return nil }))
		}
		if err := errors.Join(err, s.Undo(t.Context(), k), s.Undo(t.Context(), k)); err != nil {
			return err
		}
		left, err := os.ReadDir(m.Dir)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("undone, there is %v, want nothing", left)
		}
	}
	return nil
}

// fromData checks that every step can be undone from data alone.
func fromData(t testing.TB, r runtime.Runtime) error {
	m, run, kinds := testnet.New(t), runDir(t), host.Steps()
	if own, ok := r.(host.Stepper); ok {
		maps.Copy(kinds, own.Steps())
	}
	fresh := func() (*host.Kernel, error) { return kernel(t, m, run) }
	k, err := fresh()
	if err != nil {
		return err
	}
	defer k.Close()
	steps, err := r.Containers(own(), usual(r))
	if err != nil {
		return err
	}
	var s host.Stack
	err = steptest.Subject{Kernel: k, Fresh: fresh, Dir: m.Dir, Kinds: kinds}.Undone(t, &s, host.Plan{Steps: steps})
	return errors.Join(err, s.Undo(t.Context(), k))
}
