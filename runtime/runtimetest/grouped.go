package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/traffic"
)

// Grouped checks that each worker beside the containers of a runtime is in a control group of its own, in the first
// level of each hierarchy, and that nothing is left of it. The package's TestMain is [Main].
func Grouped(t *testing.T, r runtime.Runtime, given map[string]string) {
	testnet.Root(t)
	s := chosen(t, r, given, nil)
	testnet.Skip(t, s.Check())
	d := &local.Deployment{Journals: journal.Place{Dir: t.TempDir(), Steps: runtime.Kind{r}.Steps()}}
	g, err := d.Begin(traffic.Layout{Workers: 2, Pairs: 1, Cells: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(g.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}()
	l, err := g.Build(t.Context(), labtest.Lab(s, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const name = "grouped-" // of workers
	for i := range 2 {
		if _, err := l.Start(t.Context(), 1, host.WorkerSpec{ID: name + fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	own := programs(t, func(args []string) string {
		if i := slices.Index(args, "--name"); i >= 0 && args[1] == "worker" && strings.HasPrefix(args[i+1], name) {
			return args[i+1]
		}
		return ""
	})
	if len(own) != 2 {
		t.Fatalf("workers %v, want two", own)
	}
	grouped(t, own)
	var groups []string
	for worker, pid := range own {
		groups = append(groups, groupOf(t, pid))
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Fatal(err)
		}
		hierarchies, err := cgroup.Hierarchies()
		want := 0
		for _, h := range hierarchies {
			if !h.V2 || len(hierarchies) == 1 { // beside v1, one of v2 is not used
				want++
			}
		}
		if got := strings.Count(string(text), ":/"+groupOf(t, pid)+"\n"); err != nil || got != want {
			t.Errorf("%s is in the first level of %d hierarchies, want %d (%v):\n%s", worker, got, want, err, text)
		}
	}
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	l.Close()
	for _, one := range groups {
		if there, err := cgroup.Exists(one); there || err != nil {
			t.Errorf("after the end there is cgroup %s (%v)", one, err)
		}
	}
}
