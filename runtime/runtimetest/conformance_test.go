package runtimetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// spoilt is a runtime with the faults that its fields describe.
type spoilt struct {
	description runtime.Description
	containers  func([]runtime.Container) ([]host.Step, error)
}

func (s spoilt) Describe() runtime.Description { return s.description }
func (s spoilt) Containers(list []runtime.Container, _ part.Params) ([]host.Step, error) {
	return s.containers(list)
}

// sticky is a namespace whose removal does nothing.
type sticky struct{ host.Namespace }

func (sticky) Remove(context.Context, *host.Kernel) error { return nil }

// TestSuiteFails runs the suite on runtimes that are each wrong in one way, and checks that the check for that fault
// fails.
func TestSuiteFails(t *testing.T) {
	calls := 0
	for _, c := range []struct {
		name    string
		runtime runtime.Runtime
		check   int
		want    string
	}{
		{"no name", spoilt{}, 0, `the name is ""`},
		{"other steps each time", spoilt{containers: func([]runtime.Container) ([]host.Step, error) {
			calls++
			return make([]host.Step, calls), nil
		}}, 1, "made twice"},
		{"any namespace", Fake{}, 1, "want an error"},
		{"no namespaces", Fake{}, 2, `open namespace "src0"`},
		{"undoes nothing", spoilt{containers: func(list []runtime.Container) (steps []host.Step, err error) {
			for _, c := range list {
				steps = append(steps, sticky{host.Namespace{Name: c.Name}})
			}
			return steps, nil
		}}, 2, "want nothing"},
		{"undoes nothing, from data", spoilt{containers: func(list []runtime.Container) (steps []host.Step, err error) {
			for _, c := range list {
				steps = append(steps, sticky{host.Namespace{Name: c.Name}})
			}
			return steps, nil
		}}, 3, "removed from what was kept, it is not as it was"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checks()[c.check].run(t, c.runtime)
			if errors.Is(err, errors.ErrUnsupported) {
				testnet.Skip(t, err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s = %v, want %q", checks()[c.check].name, err, c.want)
			}
		})
	}
}
