package encryptiontest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
)

// Prepare makes the namespaces of a lab with a bridge on each host. They are gone when the test ends.
func Prepare(t *testing.T, lab network.Lab) *networktest.Bed {
	t.Helper()
	b, err := networktest.MakeBed(t, bridge.Network{}, lab)
	testnet.Skip(t, err)
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Raise prepares a lab, builds it and has it verified.
func Raise(t *testing.T, lab network.Lab) *networktest.Bed {
	t.Helper()
	b := Prepare(t, lab)
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	return b
}

// Shown returns what others could read of a host and of a program that runs on it: the steps, what was kept of them,
// the report, the logs, the command line, the environment, and each file of programs. Files is the number of those.
func Shown(t *testing.T, m *networktest.Machine, program string) (places map[string]string, files int) {
	t.Helper()
	places = map[string]string{}
	read := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		places[path] = string(data)
	}
	for _, name := range []string{"cmdline", "environ"} {
		read(fmt.Sprintf("/proc/%d/%s", m.Kernel.Running(program).PID(), name))
	}
	kept, err := json.Marshal(m.Stack)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := m.Kernel.Logs()
	if err != nil {
		t.Fatal(err)
	}
	places["what was kept"], places["logs"] = string(kept), fmt.Sprint(logs)
	places["report"] = fmt.Sprint(m.Kernel.Report())
	for _, p := range m.Plans {
		places["plan"] += p.String() + fmt.Sprintf("%+v", p)
	}
	dir, err := m.Kernel.RunDir("log")
	if err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(filepath.Dir(dir), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files++
			read(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return places, files
}
