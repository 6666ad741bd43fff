package sysfs_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysfs"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// TestLinks reads and writes attributes of a link that only its own namespace has, from a thread in another namespace.
func TestLinks(t *testing.T) {
	m, other := testnet.New(t), testnet.New(t)
	open := func(m *testnet.Machine) (l *sysfs.Links) {
		t.Helper()
		var err error
		testnet.Skip(t, m.Do(func() error { l, err = sysfs.Open(); return err }))
		t.Cleanup(l.Close)
		return l
	}
	if err := m.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		_, err = h.AddVeth(link.Veth{Name: "only0", PeerName: "only1", PeerNS: m.NS})
		return err
	}); err != nil {
		testnet.Skip(t, err)
	}
	here, there := open(m), open(other)
	const rps = "queues/rx-0/rps_flow_cnt"
	if _, err := there.Read("only0", rps); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in another namespace: %v, want %v", err, fs.ErrNotExist)
	}
	for _, want := range []string{"256", "0"} {
		if err := here.Write("only0", rps, want); err != nil {
			t.Fatal(err)
		}
		if got, err := here.Read("only0", rps); got != want || err != nil {
			t.Errorf("after %q was written it is %q (%v)", want, got, err)
		}
	}
	if err := here.Write("only0", rps, "x"); err == nil {
		t.Error("x was taken for a number")
	}
	if _, err := here.Read("../only0", rps); err == nil {
		t.Error("a path was taken for a name")
	}
	queues, err := here.List("only0", "queues")
	if err != nil || len(queues) < 2 {
		t.Errorf("queues %q (%v)", queues, err)
	}
	if cpus, err := here.CPUs(); cpus == "" || err != nil {
		t.Errorf("CPUs %q (%v)", cpus, err)
	}
}
