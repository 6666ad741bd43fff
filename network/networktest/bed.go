package networktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
)

// A Bed is a lab in private namespaces, one for each host and one for the underlay.
type Bed struct {
	Lab      network.Lab
	Ends     [][]network.Endpoint // of the containers of each host
	Hosts    []*Machine
	Underlay *Machine // nil in a lab of one host
}

// A Machine is a host without an agent: its kernel, and what is applied to it.
type Machine struct {
	*testnet.Machine
	Kernel *host.Kernel
	Stack  host.Stack
	Plans  []host.Plan // in the order in which they are applied

	config host.KernelConfig
}

// Fresh makes another kernel of the machine, as a new agent would. It is the caller's to close.
func (m *Machine) Fresh() (k *host.Kernel, err error) {
	err = m.Do(func() (err error) {
		k, err = host.NewKernel(m.config)
		return err
	})
	return k, err
}

// Subject is the machine for the conformance suite of steps.
func (m *Machine) Subject(kinds map[string]func() host.Step) steptest.Subject {
	s := steptest.Subject{Kernel: m.Kernel, Fresh: m.Fresh, Dir: m.Dir, Kinds: kinds}
	for name := range m.config.Files {
		s.Others = append(s.Others, "@"+strings.TrimPrefix(name, "netns:"))
	}
	return s
}

// Stand makes a lab that stands until the end of the test. It skips the test if this kernel lacks something.
func Stand(t testing.TB, n network.Network, lab network.Lab) *Bed {
	t.Helper()
	b, err := MakeBed(t, n, lab)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Errorf("undo: %v", err)
		}
	})
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	return b
}

// MakeBed makes the namespaces and applies nothing.
func MakeBed(t testing.TB, n network.Network, lab network.Lab) (*Bed, error) {
	built, err := build(n, lab)
	if err != nil {
		return nil, err
	}
	b := &Bed{Lab: lab, Ends: built.Ends}
	files := map[string]*os.File{}
	secret := host.NewSecret()
	for i, h := range lab.Hosts {
		var containers host.Plan // what the runtime makes
		for _, e := range b.Ends[i] {
			if e.Namespace != "" {
				containers.Steps = append(containers.Steps, host.Namespace{Name: e.Namespace})
			}
		}
		m, err := makeMachine(t, nil, secret, containers, built.Plans[i])
		if err != nil {
			return nil, err
		}
		b.Hosts = append(b.Hosts, m)
		files[fmt.Sprintf("netns:host%d", h.Index)] = m.NS
	}
	if len(lab.Hosts) > 1 {
		if b.Underlay, err = makeMachine(t, files, host.Secret{}, network.Underlay(n, lab)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func makeMachine(t testing.TB, files map[string]*os.File, secret host.Secret, plans ...host.Plan) (*Machine, error) {
	m := &Machine{Machine: testnet.New(t), Plans: plans}
	//nolint:usetesting // the path of a socket has 107 bytes at most, and the name of a directory of t.TempDir is long
	run, err := os.MkdirTemp("", "nettoll")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(run); err != nil {
			t.Error(err)
		}
	})
	m.config = host.KernelConfig{Dir: m.Dir, Run: run, Files: files}
	if m.Kernel, err = m.Fresh(); err != nil {
		return nil, err
	}
	m.Kernel.Entrust(secret) // a fresh kernel has none: what was applied is removed without it
	t.Cleanup(func() {
		if err := m.Kernel.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, nil
}

// all lists the machines in the order in which plans are applied: hosts find their uplinks.
func (b *Bed) all() []*Machine {
	if b.Underlay == nil {
		return b.Hosts
	}
	return append([]*Machine{b.Underlay}, b.Hosts...)
}

// Apply applies all plans. What was applied when one fails stays: undo it.
func (b *Bed) Apply(t testing.TB) error {
	for _, m := range b.all() {
		for _, p := range m.Plans {
			if err := m.Stack.Apply(t.Context(), m.Kernel, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// Verify asks every machine whether what was applied still stands: all at once, as a run does. What one of them waits
// for may need another one to ask again.
func (b *Bed) Verify(t testing.TB) error {
	all := b.all()
	errs := make([]error, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		asked.Go(func() { errs[i] = m.Stack.Verify(t.Context(), m.Kernel) })
	}
	asked.Wait()
	return errors.Join(errs...)
}

// Undo removes what was applied.
func (b *Bed) Undo() error {
	var errs []error
	for _, m := range slices.Backward(b.all()) {
		errs = append(errs, m.Stack.Undo(context.Background(), m.Kernel))
	}
	return errors.Join(errs...)
}

// Snapshot says what is in the namespaces of the machines, for comparison: links, addresses, tables of nftables, the
// variables that a plan sets, and what stands in their directories.
func (b *Bed) Snapshot() (map[string]string, error) {
	state := map[string]string{}
	for i, m := range b.all() {
		where := fmt.Sprintf("machine %d: ", i)
		h, err := m.Kernel.Links("")
		if err != nil {
			return nil, err
		}
		links, err := h.List()
		if err != nil {
			return nil, err
		}
		for _, l := range links {
			addresses, err := h.Addresses(l.Index)
			if err != nil {
				return nil, err
			}
			var texts []string
			for _, a := range addresses {
				texts = append(texts, a.String())
			}
			slices.Sort(texts)
			state[where+"link "+l.Name] = fmt.Sprintf("%s, mtu %d, up %t, %s", l.Type, l.MTU, l.Up, strings.Join(texts, " "))
		}
		if err := m.Do(func() error {
			tables, err := nft.List()
			state[where+"tables"] = strings.Join(tables, " ")
			return err
		}); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			state[where+"namespace "+e.Name()] = "stands"
		}
		for _, p := range m.Plans {
			for _, s := range p.Steps {
				if s, ok := s.(host.Sysctl); ok && s.NS == "" {
					if err := m.Do(func() error {
						value, err := sysctl.Read(s.Key)
						if errors.Is(err, os.ErrNotExist) {
							return nil
						}
						state[where+s.Key] = value
						return err
					}); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return state, nil
}

// undo wants everything as it was before, after one Undo and after another, and a lab that can be built once more.
func undo(t testing.TB, n network.Network, labs ...network.Lab) error {
	var errs []error
	for _, lab := range labs {
		errs = append(errs, undoLab(t, n, lab))
	}
	return errors.Join(errs...)
}

func undoLab(t testing.TB, n network.Network, lab network.Lab) error {
	b, err := MakeBed(t, n, lab)
	if err != nil {
		return err
	}
	before, err := b.Snapshot()
	if err != nil {
		return err
	}
	for range 2 {
		if err := b.Apply(t); err != nil {
			return errors.Join(err, b.Undo())
		}
		if err := b.Verify(t); err != nil {
			return errors.Join(fmt.Errorf("after all plans were applied: %w", err), b.Undo())
		}
		for range 2 {
			if err := b.Undo(); err != nil {
				return err
			}
			after, err := b.Snapshot()
			if err != nil {
				return err
			}
			if diff := cmp.Diff(before, after); diff != "" {
				return fmt.Errorf("undone, it is not as it was (-before +after):\n%s", diff)
			}
		}
	}
	// Each step can be removed again, too.
	for _, m := range b.all() {
		for _, p := range m.Plans {
			if err := twice(t, m.Kernel, kinds(n), p); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromData wants every step to be undone from data alone.
func fromData(t testing.TB, n network.Network, labs ...network.Lab) error {
	for _, lab := range labs {
		b, err := MakeBed(t, n, lab)
		if err != nil {
			return err
		}
		for _, m := range b.all() {
			for _, p := range m.Plans {
				if err := m.Subject(kinds(n)).Undone(t, &m.Stack, p); err != nil {
					return errors.Join(err, b.Undo())
				}
			}
		}
		if err := b.Undo(); err != nil {
			return err
		}
	}
	return nil
}

// twice undoes each step of a plan twice, in an order of its own: what it had put there may be gone already.
func twice(t testing.TB, k *host.Kernel, kinds map[string]func() host.Step, p host.Plan) error {
	var stacks []*host.Stack
	var again [][]byte
	var errs []error
	for _, s := range p.Steps {
		stack := new(host.Stack)
		if err := stack.Apply(t.Context(), k, host.Plan{Steps: []host.Step{s}}); err != nil {
			break // as with an uplink, which nobody made this time
		}
		data, err := json.Marshal(stack)
		if err != nil {
			return err
		}
		stacks, again = append(stacks, stack), append(again, data)
	}
	for i, stack := range stacks { // the bridge before its ports, the namespace before its links
		if err := stack.Undo(t.Context(), k); err != nil {
			errs = append(errs, fmt.Errorf("undo %q when what it needs is gone: %w", p.Steps[i], err))
		}
	}
	for i, data := range again {
		s := p.Steps[i]
		of := maps.Clone(kinds)
		//nolint:forcetypeassert // it is one
		of[s.Kind()] = func() host.Step { return reflect.New(reflect.TypeOf(s)).Interface().(host.Step) }
		stack, err := host.Decoder{Kinds: of}.Stack(data)
		if err == nil {
			err = stack.Undo(t.Context(), k)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("undo %q when what it needs is gone, and again: %w", p.Steps[i], err))
		}
	}
	return errors.Join(errs...)
}
