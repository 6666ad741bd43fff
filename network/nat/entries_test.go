package nat_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

// TestEntries fills the table of a host, measures new translations beside what is in it, and wants it verified, empty
// and as it was after that.
func TestEntries(t *testing.T) {
	const count = 20_000
	lab := networktest.Lab(1, 1)
	lab.Params = part.Params{"hairpin": "true", "entries": "20000"}
	b, err := networktest.MakeBed(t, nat.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	undone := false
	defer func() {
		if !undone {
			_ = b.Undo()
		}
	}()
	testnet.Skip(t, b.Apply(t))
	m := b.Hosts[0]
	before, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	testnet.Skip(t, m.Stack.MeasureCost(t.Context(), m.Kernel))
	if err := b.Verify(t); err != nil {
		t.Error(err)
	}
	after, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("measured, it is not as it was (-before +after):\n%s", diff)
	}
	tracked := func(mark uint32) (n int) {
		t.Helper()
		if err := m.Do(func() (err error) { n, err = conntrack.Count(mark); return err }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := tracked(0); n > 50 { // neighbours' messages of IPv6 may be among them
		t.Errorf("%d translations that were measured are left", n)
	}
	report := m.Kernel.Report()
	t.Logf("%v %q", report.Metrics, report.Doubts)
	for _, name := range []string{"entries_load_time", "translation_rate"} {
		if report.Metrics[name] <= 0 {
			t.Errorf("%s is %g", name, report.Metrics[name])
		}
	}
	if rate := report.Metrics["translation_rate"]; rate > 5e6 {
		t.Errorf("%g translations a second", rate)
	}
	if x, known := report.Metrics["memory_per_entry"]; known && (x < 0 || x > 1<<16) {
		t.Errorf("an entry has %g bytes", x)
	}
	// Somebody empties the table.
	step := m.Plans[len(m.Plans)-1].Steps
	entries, ok := step[len(step)-1].(nat.Entries)
	if !ok || entries.Count != count {
		t.Fatalf("the last step is %v", step[len(step)-1])
	}
	if err := m.Do(func() error { return conntrack.Flush(0x746f6c6c) }); err != nil {
		t.Fatal(err)
	}
	drift, ok := errors.AsType[*host.DriftError](entries.Verify(m.Kernel))
	if !ok || drift.Drifts[0].Want != "20000" || drift.Drifts[0].Got != "0" {
		t.Errorf("an empty table is verified as %v", drift)
	}
	if err := b.Undo(); err != nil {
		t.Error(err)
	}
	undone = true
	if n := tracked(0x746f6c6c); n != 0 {
		t.Errorf("undone, %d entries are left", n)
	}
}

// TestRefused measures where nothing is let through: it says so, and does not fail.
func TestRefused(t *testing.T) {
	lab := networktest.Lab(1, 1)
	lab.Params = part.Params{"hairpin": "true", "entries": "10"}
	b, err := networktest.MakeBed(t, nat.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	}()
	testnet.Skip(t, b.Apply(t))
	m := b.Hosts[0]
	var closed host.Stack
	if err := closed.Apply(t.Context(), m.Kernel, host.Plan{
		Steps: []host.Step{host.Sysctl{Key: "net.ipv4.ip_forward", Value: "0"}},
	}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := m.Stack.MeasureCost(t.Context(), m.Kernel); err != nil {
		t.Error(err)
	}
	report := m.Kernel.Report()
	if len(report.Doubts) != 1 || !strings.Contains(report.Doubts[0], "no packet arrived") ||
		report.Metrics["translation_rate"] != 0 {
		t.Errorf("after %v it reports %+v", time.Since(began), report)
	}
	if err := closed.Undo(t.Context(), m.Kernel); err != nil {
		t.Error(err)
	}
}

func TestEntriesParameter(t *testing.T) {
	params := nat.Network{}.Describe().Params
	for _, bad := range []string{"-1", "100001", "many"} {
		if _, err := params.Resolve("network nat", map[string]string{"entries": bad}); err == nil ||
			!strings.Contains(err.Error(), "0 to 100000") {
			t.Errorf("entries=%s: %v", bad, err)
		}
	}
	p, err := params.Resolve("network nat", map[string]string{"entries": "1000"})
	if err != nil || params.ID("nat", p) != "nat(hairpin=false,entries=1000)" || (nat.Network{}).Tracked(p) != 1000 {
		t.Errorf("%s (%v)", params.ID("nat", p), err)
	}
}
