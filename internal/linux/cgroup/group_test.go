package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux"
)

// write makes files in a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"cpu,cpuacct/a/cpuacct.usage":          "1500000000\n",
		"cpu,cpuacct/a/cpu.stat":               "nr_periods 7\nnr_throttled 3\nthrottled_time 1\n",
		"memory/b/c/memory.usage_in_bytes":     "4096\n",
		"memory/b/c/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
		"unified/a/cpu.stat":                   "usage_usec 2500000\nuser_usec 1\nnr_periods 8\nnr_throttled 4\n",
		"unified/a/memory.current":             "8192\n",
		"unified/a/memory.events":              "low 0\noom 1\noom_kill 0\noom_group_kill 0\n",
		"unified/without/cpu.stat":             "usage_usec 2000000\n", // no controller is enabled
		"torn/a/cpu.stat":                      "usage_usec x\n",
		"torn/a/memory.events":                 "oom_kill x\n",
		"unified/a/deeper/than/memory.current": "1",
	})
	v1 := []Hierarchy{
		{Dir: filepath.Join(dir, "cpu,cpuacct"), Controllers: []string{"cpu", "cpuacct"}},
		{Dir: filepath.Join(dir, "memory"), Controllers: []string{"memory"}},
		{Dir: filepath.Join(dir, "systemd"), Controllers: []string{"name=systemd"}},
	}
	unified := Hierarchy{Dir: filepath.Join(dir, "unified"), V2: true}
	const hybrid = "3:name=systemd:/\n2:memory:/b/c\n1:cpu,cpuacct:/a\n0::/elsewhere\n"
	for _, c := range []struct {
		name        string
		hierarchies []Hierarchy
		of          string
		want        Use
		killed      bool
	}{
		{"v1", v1, hybrid, Use{CPU: 1500 * time.Millisecond, Memory: 4096, Periods: 7, Throttled: 3}, true},
		{
			"v1 beside v2", append(v1, unified), hybrid,
			Use{CPU: 1500 * time.Millisecond, Memory: 4096, Periods: 7, Throttled: 3},
			true,
		},
		{"v2", []Hierarchy{unified}, "0::/a\n", Use{CPU: 2500 * time.Millisecond, Memory: 8192, Periods: 8, Throttled: 4}, false},
		{"without controllers", []Hierarchy{unified}, "0::/without\n", Use{CPU: 2 * time.Second}, false},
		{"none", nil, hybrid, Use{}, false},
		{"no lines", v1, "torn\n", Use{}, false},
	} {
		g := group(c.hierarchies, c.of)
		got, err := g.Use()
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
		if got := g.OutOfMemory(); got != c.killed {
			t.Errorf("%s: out of memory: %v", c.name, got)
		}
	}
	torn := group([]Hierarchy{{Dir: filepath.Join(dir, "torn"), V2: true}}, "0::/a\n")
	if _, err := torn.Use(); err == nil || !strings.Contains(err.Error(), "torn/a/cpu.stat") || torn.OutOfMemory() {
		t.Errorf("a torn file: %v", err)
	}
	for text, want := range map[string]bool{"oom_kill 2\n": true, "oom_kill 0\n": false, "": false} {
		if Killed(text) != want {
			t.Errorf("Killed(%q) is %v", text, !want)
		}
	}
	for h, want := range map[string]string{
		v1[1].MemoryEvents("x"): "memory/x/memory.oom_control", unified.MemoryEvents("x"): "unified/x/memory.events",
	} {
		if h != filepath.Join(dir, want) {
			t.Errorf("events are in %s, want %s", h, want)
		}
	}
}

// A group of v2 counts what the kernel kills below it. One of v1 does not.
func TestKilledBelow(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"unified/cgroup.controllers":       "cpu memory\n",
		"unified/killed/memory.events":     "oom 1\noom_kill 2\n",
		"unified/well/memory.events":       "oom 1\noom_kill 0\n",
		"memory/killed/memory.oom_control": "oom_kill 2\n",
	})
	v1 := Hierarchy{Dir: filepath.Join(dir, "memory"), Controllers: []string{"memory"}}
	v2 := Hierarchy{Dir: filepath.Join(dir, "unified"), V2: true}
	for _, c := range []struct {
		list []Hierarchy
		name string
		want bool
	}{
		{[]Hierarchy{v2}, "killed", true},
		{[]Hierarchy{v2}, "well", false},
		{[]Hierarchy{v2}, "gone", false},
		{[]Hierarchy{v1, v2}, "killed", false},
		{nil, "killed", false},
	} {
		if got := killedBelow(c.list, c.name); got != c.want {
			t.Errorf("%s in %v: %v, want %v", c.name, c.list, got, c.want)
		}
	}
}

func TestInhabited(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"machine/cgroup.procs": "1\n", "empty/cgroup.procs": "", "empty/cgroup.type": "domain\n",
		"container/cgroup.procs": "0\n7\n", "container/cgroup.type": "domain\n",
	})
	at := func(name string) Hierarchy { return Hierarchy{Dir: filepath.Join(dir, name), V2: true} }
	for _, c := range []struct {
		list    []Hierarchy
		refused bool
	}{
		{[]Hierarchy{at("machine")}, false},
		{[]Hierarchy{at("empty")}, false},
		{[]Hierarchy{at("container")}, true},
		{[]Hierarchy{at("container"), {Dir: dir, Controllers: []string{"cpu"}}}, false},
	} {
		err := inhabited("make groups", c.list)
		u, is := errors.AsType[*linux.UnsupportedError](err)
		if is != c.refused || is && (u.Missing != "a control group without processes at "+c.list[0].Dir ||
			!strings.Contains(u.Hint, "mkdir "+c.list[0].Dir+"/init; ")) {
			t.Errorf("%v: %v, want it to be refused: %v", c.list, err, c.refused)
		}
	}
}

func TestControlled(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"unified/cgroup.controllers": "cpuset cpu\n", "unified/cpuset.cpus.effective": "0-3\n", "cpuset/cpuset.cpus": "0,2\n",
		"memory/memory.memsw.limit_in_bytes": "",
	})
	v1 := func(name string) Hierarchy {
		return Hierarchy{Dir: filepath.Join(dir, name), Controllers: []string{name}}
	}
	v2 := Hierarchy{Dir: filepath.Join(dir, "unified"), V2: true}
	for _, c := range []struct {
		list       []Hierarchy
		controller string
		want       Hierarchy
		hint       string // "" if it is there
	}{
		{[]Hierarchy{v1("cpuset"), v1("memory"), v2}, "memory", v1("memory"), ""},
		{[]Hierarchy{v1("cpuset"), v2}, "cpu", Hierarchy{}, "mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu"},
		{[]Hierarchy{v2}, "cpu", v2, ""},
		{[]Hierarchy{v2}, "memory", Hierarchy{}, "cgroup_enable=memory"},
		{nil, "cpu", Hierarchy{}, "cgroup_enable=cpu"},
	} {
		got, err := controlled(c.list, "limit containers", c.controller)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %v (-want +got):\n%s", c.controller, c.list, diff)
		}
		u, missing := errors.AsType[*linux.UnsupportedError](err)
		if missing != (c.hint != "") || missing && (!strings.Contains(u.Hint, c.hint) ||
			u.Missing != `controller "`+c.controller+`" of cgroups`) {
			t.Errorf("%s of %v: %v, want the hint %q", c.controller, c.list, err, c.hint)
		}
	}
	for _, c := range []struct {
		list    []Hierarchy
		missing string
	}{{[]Hierarchy{v2}, `"pids"`}, {[]Hierarchy{v1("cpuset"), v2}, ""}} {
		err := delegated(c.list, "make containers", []string{"cpu", "pids"})
		u, missing := errors.AsType[*linux.UnsupportedError](err)
		if missing != (c.missing != "") || missing && !strings.Contains(u.Missing, c.missing) {
			t.Errorf("delegated of %v: %v, want %s to be missing", c.list, err, c.missing)
		}
	}
	for _, c := range []struct {
		h    Hierarchy
		want []int
	}{{v1("cpuset"), []int{0, 2}}, {v2, []int{0, 1, 2, 3}}} {
		if got, err := c.h.CPUs(); !cmp.Equal(got, c.want) || err != nil {
			t.Errorf("CPUs of %s: %v, %v, want %v", c.h.Dir, got, err, c.want)
		}
	}
	if !v1("memory").Swaps() || v1("cpuset").Swaps() {
		t.Error("whether swap can be limited is wrong")
	}
}

func TestCPUs(t *testing.T) {
	for list, want := range map[string]string{
		"0": "0", "0-1": "0-1", "3,1,2": "1-3", "0,2-3,2": "0,2-3", "0,2": "0,2", "7-7": "7", "8191": "8191",
	} {
		cpus, err := ParseCPUs(list)
		if got := FormatCPUs(cpus); got != want || err != nil {
			t.Errorf("%q is %q (%v), want %q", list, got, err, want)
		}
	}
	for _, list := range []string{"", ",", "0,", "-1", "1-", "2-1", "a", "0 1", "8192", "0-8192", "1-2-3", "+1", "0x1"} {
		if cpus, err := ParseCPUs(list); err == nil || !strings.Contains(err.Error(), "such as 0, 0-1 or 0,2-3") {
			t.Errorf("%q is %v (%v), want an error", list, cpus, err)
		}
	}
	if FormatCPUs(nil) != "" {
		t.Error("no CPUs are some")
	}
}

// What is read is written so that it is read again, and is ascending.
func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"0", "0-3,8", "3,1,2", "8191", "2-1", "0-", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := ParseCPUs(s)
		if err != nil {
			return
		}
		text := FormatCPUs(cpus)
		again, err := ParseCPUs(text)
		if err != nil || !cmp.Equal(cpus, again) || FormatCPUs(again) != text {
			t.Errorf("%q is %v, %q and then %v (%v)", s, cpus, text, again, err)
		}
		for i, cpu := range cpus {
			if cpu < 0 || cpu > most || i > 0 && cpu <= cpus[i-1] {
				t.Fatalf("%q is %v", s, cpus)
			}
		}
	})
}

// The scheduler goes by the group of the controller "cpu", of v1 if that has it, else of v2.
func TestScheduled(t *testing.T) {
	for text, want := range map[string]string{
		"4:memory:/m\n2:cpu,cpuacct:/a/b\n0::/c\n": "/a/b",
		"0::/user.slice/session-1.scope\n":         "/user.slice/session-1.scope",
		"1:name=systemd:/s\n0::/\n":                "/",
		"":                                         "",
	} {
		if got := scheduled(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLevel(t *testing.T) {
	for path, want := range map[string]int{"": 0, "/": 0, "/a": 1, "/user.slice/user-0.slice/session-1.scope": 3} {
		if got := Level(path); got != want {
			t.Errorf("%q: level %d, want %d", path, got, want)
		}
	}
}
