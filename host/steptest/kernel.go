package steptest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
)

// Kernel returns the kernel of a machine, with its directory and one for files of the test. It is closed when the test
// ends.
func Kernel(t testing.TB, m *testnet.Machine, config host.KernelConfig) *host.Kernel {
	t.Helper()
	config.Dir, config.Run = m.Dir, t.TempDir()
	var k *host.Kernel
	if err := m.Do(func() (err error) {
		k, err = host.NewKernel(config)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// Noticed applies a plan, tampers with what it made, and checks that Verify finds no difference before and the wanted
// one after. It undoes the plan.
func Noticed(t testing.TB, k *host.Kernel, p host.Plan, tamper func() error, want string) {
	t.Helper()
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, p))
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	if err := tamper(); err != nil {
		t.Error(err)
	}
	err := s.Verify(t.Context(), k)
	if _, drift := errors.AsType[*host.DriftError](err); !drift || !strings.Contains(err.Error(), want) {
		t.Errorf("Verify = %v\nwant a DriftError with %q", err, want)
	}
	if err := s.Undo(context.Background(), k); err != nil {
		t.Errorf("undo after tampering: %v", err)
	}
}
