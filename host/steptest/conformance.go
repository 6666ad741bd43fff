package steptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ethtool"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A Subject is a set of plans, with the kernel in which they are applied.
type Subject struct {
	// Kernel is the kernel to which the steps are applied. Fresh makes another Kernel of the same host, as a new agent
	// would: it does not know what was applied.
	Kernel *host.Kernel
	Fresh  func() (*host.Kernel, error)
	// Dir is the directory of namespaces, and Others are references to namespaces of other hosts that the steps reach
	// into.
	Dir    string
	Others []string
	// Kinds are the kinds of steps. The kinds of the plan itself, which a test may have spoilt, take precedence.
	Kinds map[string]func() host.Step
	// More describes what else the steps may change; nil for nothing.
	More func() (map[string]string, error)
}

// Undone applies the steps of a plan one after another. Before the next step, it removes each step in a fresh kernel,
// from nothing but JSON. It checks that everything is as before, and removes the step a second time, which must change
// nothing. Then it applies the step again and goes on. The applied steps are on the stack, also after an error.
func (s Subject) Undone(t testing.TB, stack *host.Stack, p host.Plan) error {
	for i, step := range p.Steps {
		if err := s.undone(t, step, p); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, step, err)
		}
		if err := stack.Apply(t.Context(), s.Kernel, host.Plan{Steps: []host.Step{step}}); err != nil {
			return fmt.Errorf("step %d (%s), when it was removed by another process: %w", i+1, step, err)
		}
	}
	return nil
}

func (s Subject) undone(t testing.TB, step host.Step, p host.Plan) (err error) {
	before, err := s.state(p)
	if err != nil {
		return err
	}
	var stack host.Stack
	if err := stack.Apply(t.Context(), s.Kernel, host.Plan{Steps: []host.Step{step}}); err != nil {
		return err
	}
	// The process that has applied it lives on, with all that it has open.
	defer func() { err = errors.Join(err, stack.Release()) }()
	data, err := json.Marshal(stack)
	if err != nil {
		return err
	}
	kinds := maps.Clone(s.Kinds)
	//nolint:forcetypeassert // it is one
	kinds[step.Kind()] = func() host.Step { return reflect.New(reflect.TypeOf(step)).Interface().(host.Step) }
	for n, moment := range []string{"removed from what was kept", "removed once more"} {
		if err := s.remove(t, host.Decoder{Kinds: kinds}, data); err != nil {
			return fmt.Errorf("%s (%s): %w", moment, data, err)
		}
		diff, err := s.differs(before, p)
		if err != nil {
			return err
		}
		if diff != "" {
			if n == 0 {
				err = stack.Undo(t.Context(), s.Kernel)
			}
			return errors.Join(fmt.Errorf("%s, it is not as it was (-before +after), from %s:\n%s", moment, data, diff), err)
		}
	}
	return nil
}

// settle is how long the kernel may take to complete removals in the background. Tests of steps that are not undone
// wait that long, too.
const settle = 10 * time.Second

// differs compares the state with the state before.
func (s Subject) differs(before map[string]string, p host.Plan) (diff string, err error) {
	for deadline := time.Now().Add(settle); ; time.Sleep(10 * time.Millisecond) {
		after, err := s.state(p)
		if err != nil {
			return "", err
		}
		diff = cmp.Diff(before, after)
		if diff == "" || time.Now().After(deadline) {
			return diff, nil
		}
	}
}

// remove undoes the applied steps in a kernel that does not know them.
func (s Subject) remove(t testing.TB, d host.Decoder, data []byte) error {
	stack, err := d.Stack(data)
	if err != nil {
		return err
	}
	k, err := s.Fresh()
	if err != nil {
		return err
	}
	return errors.Join(stack.Undo(t.Context(), k), k.Close())
}

// state describes all namespaces that the steps can reach, with the variables that they set.
func (s Subject) state(p host.Plan) (map[string]string, error) {
	state := map[string]string{}
	spaces := append([]string{""}, s.Others...)
	if s.Dir != "" {
		entries, err := os.ReadDir(s.Dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			spaces = append(spaces, e.Name())
		}
	}
	if s.More != nil {
		more, err := s.More()
		if err != nil {
			return nil, err
		}
		maps.Copy(state, more)
	}
	// A kernel of its own: the kernel of the steps knows namespaces that are gone.
	k, err := s.Fresh()
	if err != nil {
		return nil, err
	}
	defer k.Close()
	for _, ns := range spaces {
		if err := k.Do(ns, func() error {
			found, err := testnet.State()
			if err != nil {
				return err
			}
			for what, text := range found {
				state[ns+": "+what] = text
			}
			return describe(ns, p, state)
		}); err != nil {
			return nil, fmt.Errorf("look into namespace %q: %w", ns, err)
		}
	}
	return state, nil
}

// describe adds what else plans can set in the namespace of the calling thread.
func describe(ns string, p host.Plan, state map[string]string) error {
	tables, err := nft.List()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	slices.Sort(tables)
	state[ns+": tables"] = fmt.Sprint(tables)
	for _, step := range p.Steps {
		data, err := json.Marshal(step)
		if err != nil {
			return err
		}
		var of struct {
			NS        string   `json:"ns"`
			Key, Name string   `json:",omitempty"`
			On, Off   []string `json:",omitempty"`
		}
		if json.Unmarshal(data, &of) != nil || of.NS != ns { // another kind of step has other fields with these names
			continue
		}
		switch step.Kind() {
		case host.Sysctl{}.Kind():
			value, err := sysctl.Read(of.Key)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			state[ns+": "+of.Key] = value
		case host.LinkSettings{}.Kind():
			for _, o := range slices.Concat(of.On, of.Off) {
				on, err := ethtool.Get(of.Name, ethtool.Offload(o))
				state[ns+": "+o+" of "+of.Name] = fmt.Sprint(on, err)
			}
		}
	}
	return nil
}
