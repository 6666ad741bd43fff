package control

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/runtime"
)

// What containers have used is that between two looks: of each, of all of them together, and of the one with most
// memory.
func TestUsed(t *testing.T) {
	use := func(host1, name string, u cgroup.Use) deploy.ContainerUse {
		return deploy.ContainerUse{Host: host1, ContainerUse: host.ContainerUse{Name: name, Use: u}}
	}
	before := []deploy.ContainerUse{
		use("host1", "src0", cgroup.Use{CPU: time.Second, Memory: 10, Periods: 5, Throttled: 5}),
		use("host2", "src0", cgroup.Use{CPU: time.Second, Memory: 10}), use("host1", "went", cgroup.Use{CPU: time.Hour}),
	}
	after := []deploy.ContainerUse{
		use("host1", "src0", cgroup.Use{CPU: 2 * time.Second, Memory: 20, Periods: 25, Throttled: 15}),
		use("host2", "src0", cgroup.Use{CPU: 3 * time.Second, Memory: 30, Periods: 20, Throttled: 5}),
		use("host1", "came", cgroup.Use{CPU: time.Hour, Memory: 100}),
	}
	limits := runtime.Limits{CPUs: 0.5}
	each := func(one, two map[string]float64) []measure.ContainerMetrics {
		return []measure.ContainerMetrics{
			{Host: "host1", Name: "src0", Metrics: one}, {Host: "host2", Name: "src0", Metrics: two},
		}
	}
	limited := measure.LabRecord{
		Metrics: map[string]float64{"cpu_containers": 0.75, "container_memory": 30, "container_throttled": 0.375},
		Containers: each(
			map[string]float64{"cpu_containers": 0.25, "container_memory": 20, "container_throttled": 0.5},
			map[string]float64{"cpu_containers": 0.5, "container_memory": 30, "container_throttled": 0.25},
		),
	}
	for _, c := range []struct {
		name     string
		limits   runtime.Limits
		shortest time.Duration
		after    []deploy.ContainerUse
		want     measure.LabRecord
		doubt    string
	}{
		{
			"long trials", limits, time.Second, after,
			limited,
			"",
		},
		{
			"short trials", limits, 40 * time.Millisecond, after,
			limited,
			`the limit "0.5 CPUs" stopped containers in 15 of the 40 periods of 100ms in which they ran; trials of 40ms are short`,
		},
		{
			"no limit of CPU time",
			runtime.Limits{Memory: 64 << 20},
			40 * time.Millisecond, after,
			measure.LabRecord{Metrics: map[string]float64{"cpu_containers": 0.75, "container_memory": 30}, Containers: each(
				map[string]float64{"cpu_containers": 0.25, "container_memory": 20},
				map[string]float64{"cpu_containers": 0.5, "container_memory": 30},
			)},
			"",
		},
		{"all are gone", limits, time.Second, nil, measure.LabRecord{Metrics: map[string]float64{}}, ""},
	} {
		got, doubt := used(before, c.after, 4*time.Second, c.limits, c.shortest)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if !strings.Contains(doubt, c.doubt) || (doubt == "") != (c.doubt == "") {
			t.Errorf("%s: %q, want %q", c.name, doubt, c.doubt)
		}
	}
	if _, doubt := used(before, after, time.Second, limits, time.Millisecond); !strings.Contains(doubt, "--trial 1s") {
		t.Errorf("a doubt does not say what helps: %s", doubt)
	}
}

// A lab whose containers cannot use the CPUs of its threads is refused before anything is built.
func TestConfined(t *testing.T) {
	parts := catalogue.New().Parts()
	for _, c := range []struct {
		name, file string
		cpus       []int
		want       string // "" if the lab can be built
	}{
		{"all CPUs", "runtime: {oci: {cpuset: 0-3}}", []int{0, 1, 2, 3}, ""},
		{"no limit", "runtime: oci", []int{0, 1}, ""},
		{"a network namespace has none", "runtime: netns", []int{0, 1}, ""},
		{"more than it needs", "runtime: {oci: {cpuset: 0-3}}, affinity: same", []int{0, 1, 2, 3}, ""},
		{"what it needs", "runtime: {oci: {cpuset: 0-1}}, affinity: same", []int{0, 1, 2, 3}, ""},
		{"free", "runtime: {lxc: {cpuset: 1}}, affinity: free", []int{0, 1}, ""},
		{
			"sinks", "runtime: {oci: {cpuset: 0}}",
			[]int{0, 1},
			`cpuset=0 lacks CPU 1, to which affinity "split" pins each sink (valid: affinity free, or cpuset=0-1)`,
		},
		{"sources", "runtime: {lxc: {cpuset: 2-3}}", []int{0, 1, 2, 3}, `cpuset=2-3 lacks CPU 0, to which affinity "split" pins each source`},
		{"same", "runtime: {oci: {cpuset: 1}}, affinity: same", []int{0, 1}, `cpuset=1 lacks CPU 0, to which affinity "same"`},
	} {
		e, err := experiment.Read("f.yaml", []byte("factors: {network: bridge, placement: same-host, "+c.file+
			"}\nworkloads: [udp-rr]\n"), nil, parts)
		if err != nil {
			t.Fatal(err)
		}
		r, err := experiment.Resolve(e, parts, len(c.cpus))
		if err != nil {
			t.Fatal(err)
		}
		if err := confinedAs(t, r, c.cpus); c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Threads that spin do not share a CPU of a set either.
func TestConfinedSpinners(t *testing.T) {
	parts := catalogue.New().Parts()
	for set, want := range map[string]string{
		"1": "udp-rr(payload=64,mode=spin) on cpuset=1, but each spinning pair needs CPUs of its own", "0-1": "",
	} {
		e, err := experiment.Read("f.yaml", []byte("factors: {network: bridge, placement: same-host, runtime: {oci: {cpuset: "+set+
			"}}, affinity: free}\nworkloads: [{udp-rr: {mode: spin}}]\n"), nil, parts)
		if err != nil {
			t.Fatal(err)
		}
		r, err := experiment.Resolve(e, parts, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := confinedAs(t, r, []int{0, 1, 2, 3}); want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("cpuset=%s: %v, want %q", set, err, want)
		}
	}
}

// confinedAs returns why a lab of an experiment is refused on a machine with these CPUs.
func confinedAs(t *testing.T, r *experiment.Resolved, cpus []int) error {
	t.Helper()
	c := &configurator{resolved: r, cpus: cpus}
	all := make([]int, len(r.Cells))
	for i := range all {
		all[i] = i
	}
	g, err := c.begin(firstGeneration, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range g.labs {
		if err := c.confined(l); err != nil {
			return err
		}
	}
	return nil
}

// Workers outside of containers that are deeper in control groups are warned of where they are compared with workers in
// containers, and nowhere else.
func TestLevels(t *testing.T) {
	parts := catalogue.New().Parts()
	const (
		deep = "/user.slice/user-0.slice/session-1.scope"
		own  = "{netns: {group: own}}"
	)
	for _, c := range []struct{ baseline, runtimes, group, want string }{
		{"netns", "[netns, oci]", deep, "in a control group of level 3 (" + deep + "), and those in containers of oci"},
		{"netns", "[oci, lxc]", "/a/b", "of level 2 (/a/b), and those in containers of lxc"},
		{own, "[netns, oci]", deep, "level 3"},
		{own, "[" + own + ", oci]", deep, ""},
		{"oci", "[oci, lxc]", deep, ""},
		{"netns", "[netns, " + own + "]", deep, ""},
		{"netns", "[netns, oci]", "/nettoll.service", ""},
		{"netns", "[netns, oci]", "/", ""},
		{"netns", "[netns, oci]", "", ""},
	} {
		e, err := experiment.Read("f.yaml", []byte("baseline: {network: host, runtime: "+c.baseline+
			"}\nfactors: {network: bridge, placement: same-host, runtime: "+c.runtimes+"}\nworkloads: [udp-rr]\n"), nil, parts)
		if err != nil {
			t.Fatal(err)
		}
		r, err := experiment.Resolve(e, parts, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got := levels(r.Labs, c.group); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s over %s in %q: %q, want %q", c.runtimes, c.baseline, c.group, got, c.want)
		}
	}
}
