package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  Limits
		id    string
		text  string
		flags string
	}{
		{nil, Limits{}, "x", "", ""},
		{map[string]string{"cpus": "unlimited", "cpuset": "unlimited", "memory": "unlimited"}, Limits{}, "x", "", ""},
		{
			map[string]string{"cpus": "0.50", "cpuset": "1,0", "memory": "65536KiB"},
			Limits{CPUs: 0.5, CPUSet: []int{0, 1}, Memory: 64 << 20},
			"x(cpus=0.5,cpuset=0-1,memory=64MiB)",
			", limited to 0.5 CPUs, on CPUs 0-1, 64 MiB of memory",
			"--cpu-period 100000 --cpu-quota 50000 --cpuset-cpus 0-1 --memory 67108864 --memory-swap 67108864",
		},
		{
			map[string]string{"cpus": "1e-2", "cpuset": "0,2"},
			Limits{CPUs: 0.01, CPUSet: []int{0, 2}},
			`x(cpus=0.01,cpuset="0,2")`, ", limited to 0.01 CPUs, on CPUs 0,2",
			"--cpu-period 100000 --cpu-quota 1000 --cpuset-cpus 0,2",
		},
		{
			map[string]string{"cpus": "0.33333333", "memory": "10000001"},
			Limits{CPUs: 0.33333, Memory: 10_000_001},
			"x(cpus=0.33333,memory=10000001)", ", limited to 0.33333 CPUs, 10 MB of memory",
			"--cpu-period 100000 --cpu-quota 33333 --memory 10000001 --memory-swap 10000001",
		},
		{
			map[string]string{"cpus": "1024", "memory": "1024GiB"},
			Limits{CPUs: 1024, Memory: 1 << 40},
			"x(cpus=1024,memory=1024GiB)", ", limited to 1024 CPUs, 1048576 MiB of memory",
			"--cpu-period 100000 --cpu-quota 102400000 --memory 1099511627776 --memory-swap 1099511627776",
		},
		{
			map[string]string{"memory": "1024KiB000"}, Limits{}, "", "", "",
		},
	} {
		p, err := LimitParams().Resolve("runtime x", c.given)
		if c.id == "" {
			if err == nil {
				t.Errorf("%v: no error", c.given)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.given, err)
			continue
		}
		got := LimitsOf(p)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.given, diff)
		}
		if id := LimitParams().ID("x", p); id != c.id {
			t.Errorf("%v has the id %q, want %q", c.given, id, c.id)
		}
		if text := got.Described(); text != c.text {
			t.Errorf("%v is described as %q, want %q", c.given, text, c.text)
		}
		if flags := strings.Join(got.Flags(), " "); flags != c.flags {
			t.Errorf("%v has the flags %q, want %q", c.given, flags, c.flags)
		}
	}
	if got := LimitsOf(part.Params{}); !cmp.Equal(got, Limits{}) {
		t.Errorf("a runtime without the parameters has the limits %v", got)
	}
}

// A value that is not valid is named, with those that are.
func TestLimitsRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"cpus":   {"", "0", "-1", "0.009", "1025", "NaN", "Inf", "half", "50%"},
		"cpuset": {"", "a", "1-0", "0;1", "all"},
		"memory": {"", "0", "5MiB", "64", "64mb", "1025GiB", "GiB", "-64MiB", "1.5GiB", "18446744073709551617GiB"},
	} {
		for _, v := range values {
			_, err := LimitParams().Resolve("runtime x", map[string]string{name: v})
			if err == nil || !strings.Contains(err.Error(), "runtime x: "+name+": ") ||
				!strings.Contains(err.Error(), `"`+v+`"`) || !strings.Contains(err.Error(), "such as") ||
				!strings.HasSuffix(err.Error(), "or unlimited") {
				t.Errorf("%s=%s: %v", name, v, err)
			}
		}
	}
}

// What a limit is written as in ids is read as the same limit.
func FuzzLimits(f *testing.F) {
	for _, s := range [][3]string{
		{"0.5", "0-1", "64MiB"}, {"1e-2", "0,2", "1GiB"}, {"unlimited", "unlimited", "unlimited"}, {"NaN", "2-1", "1KiB"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, time, set, bytes string) {
		p, err := LimitParams().Resolve("runtime x", map[string]string{cpus: time, CPUSet: set, memory: bytes})
		if err != nil {
			return
		}
		_, given, err := part.Parse("runtime", LimitParams().ID("x", p))
		if err != nil {
			t.Fatal(err)
		}
		again, err := LimitParams().Resolve("runtime x", given)
		if err != nil || !part.Equal(p, again) {
			t.Fatalf("%v, again %v (%v)", p, again, err)
		}
		l := LimitsOf(p)
		if (l.CPUs == 0) != (time == unlimited) || (l.CPUSet == nil) != (set == unlimited) ||
			(l.Memory == 0) != (bytes == unlimited) {
			t.Errorf("%q, %q and %q are the limits %+v", time, set, bytes, l)
		}
		if l.CPUs > 0 && l.Quota() < 1000 || l.Memory > 0 && l.Memory < leastMemory || len(l.CPUSet) > 0 && l.CPUSet[0] < 0 {
			t.Errorf("the kernel refuses %+v", l)
		}
	})
}

// A CPU that the machine lacks is found before anything is built.
func TestLimitsCheck(t *testing.T) {
	if err := (Limits{}).Check(); err != nil {
		t.Errorf("no limits: %v", err)
	}
	h, err := cgroup.Controlled("test", "cpuset")
	testnet.Skip(t, err)
	known, err := h.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	if err := (Limits{CPUSet: known}).Check(); err != nil {
		t.Error(err)
	}
	err = Limits{CPUSet: []int{slices.Max(known), 8191}}.Check()
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "missing CPU 8191") ||
		!strings.Contains(err.Error(), "choose among CPUs "+cgroup.FormatCPUs(known)) {
		t.Errorf("a CPU that is not there: %v", err)
	}
}

// A worker that gets a tenth of the CPU time takes ten times as long to start, but a container that fails is noticed.
func TestArrives(t *testing.T) {
	for cpus, want := range map[float64]time.Duration{
		0: arrival, 1: arrival, 4: arrival, 0.5: 2 * arrival, 0.2: 5 * arrival, 0.01: mostArrival,
	} {
		if got := (Limits{CPUs: cpus}).arrives(); got != want {
			t.Errorf("with %v CPUs it may take %v, want %v", cpus, got, want)
		}
	}
}

// With cgroup v2, the group of a container, or the one above it, is kept from swapping if its memory is limited. With
// v1 there is no such group.
func TestSetSwap(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, Limitable())
	h, err := cgroup.Controlled("test", "memory")
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := h.CPUs()
	if h.V2 && err != nil {
		t.Fatal(err)
	}
	for _, l := range []Limits{{}, {Memory: 32 << 20}, {Memory: 32 << 20, CPUSet: cpus}} {
		group := fmt.Sprintf("nettoll-test-swap-%d", os.Getpid())
		for range 2 { // also if the group is there
			if err := l.setSwap(group); err != nil {
				t.Error(err)
			}
		}
		want := ""
		if h.V2 && l.Memory > 0 {
			want = "0\n"
		}
		text, _ := os.ReadFile(filepath.Join(h.Dir, group, "memory.swap.max"))
		if string(text) != want {
			t.Errorf("with %+v the limit of swap is %q, want %q", l, text, want)
		}
		if h.V2 {
			if err := l.SetCPUs(group); err != nil {
				t.Error(err)
			}
		}
		if there, err := cgroup.Exists(group); err != nil || there != (want != "") {
			t.Errorf("with %+v there is a group: %v, %v", l, there, err)
		}
		if err := cgroup.Remove(group); err != nil {
			t.Error(err)
		}
	}
}
