package experiment_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/stack"
)

// numbers lists whole numbers in YAML and command-line syntax.
func numbers(from, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(from + i)
	}
	return strings.Join(list, ", ")
}

// expand reads an experiment and expands it.
func expand(text string, settings []experiment.Setting, parts experiment.Parts) error {
	e, err := experiment.Read("f.yaml", []byte(text), settings, parts)
	if err == nil {
		_, err = experiment.Resolve(e, parts, 2)
	}
	return err
}

// crossingLimit is the CPU time that refusing a file may take, five times as much as it takes on a busy machine.
// Comparing each of 30,000 values with each other one takes twice as much as the limit, and more.
const crossingLimit = 500 * time.Millisecond

// A short file that crosses to more cells than can be measured is refused before it is expanded. That takes little
// memory and CPU time, and the error has the sizes of the factors.
func TestCrossingBombs(t *testing.T) {
	parts := catalogue.New().Parts()
	rules := func(n int) string { return "{nftables: {rules: [" + numbers(1, n) + "]}}" }
	wide := "factors: {network: [bridge, nat, macvlan], placement: same-host, pairs: [" + numbers(1, 37) +
		"], family: [ipv4, ipv6], affinity: [split, same, free]}\n"
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name, text string
		settings   []experiment.Setting
		want       string
		limit      uint64 // bytes that may be allocated
	}{
		{
			"of factors", wide + "workloads: [{udp-rr: {payload: [" + numbers(64, 90) + "]}}]\n", nil,
			"too many combinations: 79920 (limit 20000): 4 stacks × 90 workloads × 37 pairs × 2 families × 3 affinities; " +
				"cross fewer factors", 32 << 20,
		},
		{
			"of cells", head + "workloads: [{udp-rr: {payload: [" + numbers(64, 1000) + "]}}]\n", nil,
			"too many cells: more than 2000: 2 stacks × 1000 workloads × 2 placements; cross fewer factors", 96 << 20,
		},
		{
			"of stacks", "factors: {network: [bridge, nat, macvlan], filter: [none, " + rules(1999) +
				"], tunnel: none, runtime: netns, pairs: [1, 2]}\nworkloads: udp-rr\n", nil,
			"too many combinations: 24004 (limit 20000): 6001 stacks × 2 placements × 2 pairs; cross fewer factors", 64 << 20,
		},
		{
			"of many lists", "factors: {network: bridge, filter: [" + rules(1999) + ", {nftables: {rules: [" +
				numbers(5000, 1999) + "]}}]}\nworkloads: udp-rr\n", nil,
			"too many filters: more than 2000", 32 << 20,
		},
		{
			"of workloads", head + "workloads: [{udp-rr: {payload: [" + numbers(64, 1500) + "]}}, {udp-rr: {payload: [" +
				numbers(3000, 1500) + "]}}]\n", nil,
			"too many workloads: more than 2000", 32 << 20,
		},
		{
			"of mixes", head + "workloads:\n" +
				strings.Repeat("  - mix: [{udp-rr: {payload: ["+numbers(64, 40)+"]}}, {tcp-stream: {message: ["+numbers(64, 40)+
					"]}}]\n", 3), nil,
			"too many workloads: more than 2000", 96 << 20,
		},
		{"on the command line", head + "workloads: udp-rr\n", []experiment.Setting{
			{Flag: "--network", Path: "factors.network", Value: "[bridge, nat, macvlan]"},
			{Flag: "--pairs", Path: "factors.pairs", Value: "[" + numbers(1, 500) + "]"},
			{Flag: "--set", Path: "factors.family", Value: "[ipv4, ipv6]"},
			{Flag: "--set", Path: "factors.affinity", Value: "[split, same, free]"},
		}, "too many combinations: 24000 (limit 20000): 4 stacks × 2 placements × 500 pairs × 2 families × 3 affinities; " +
			"cross fewer factors", 32 << 20},
		{
			"of duplicates", head + "workloads: [{udp-rr: {payload: [" + strings.Repeat("64, ", 50_000) + "65]}}]\n", nil,
			`"64" is listed twice`, 128 << 20,
		},
		{
			"of values", head + "workloads: [{udp-rr: {payload: [" + numbers(10_000, 30_000) + "]}}]\n", nil,
			"too many combinations of parameters: 30000 (limit 2000)", 128 << 20,
		},
		{"of keys", "factors: {" + strings.Join(strings.Split(numbers(1, 20_000), ", "), ": 1, ") +
			": 1}\nworkloads: udp-rr\n", nil, `unknown key "1" in factors`, 128 << 20},
		{"of stacks with names", "stacks:\n" + strings.Repeat("  - {name: "+long+", network: bridge}\n", 2500) +
			"workloads: udp-rr\n", nil, `stack "` + long + `" is already defined at line 2`, 64 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := cpuTime(t)
			err := expand(c.text, c.settings, parts)
			took := cpuTime(t) - began
			runtime.ReadMemStats(&after)
			if took > crossingLimit && !testnet.Race {
				t.Errorf("a file of %d bytes took %v of CPU time, want at most %v", len(c.text), took, crossingLimit)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > c.limit {
				t.Errorf("%d bytes were allocated for a file of %d, want at most %d", used, len(c.text), c.limit)
			}
		})
	}
}

// Sizes whose product overflows are refused like others.
func TestCrossingOverflow(t *testing.T) {
	parts := catalogue.New().Parts()
	e := experiment.Base(parts)
	for _, kind := range parts.Kinds[:4] {
		c, err := parts.Kinds.Choose(kind.Describe().Name, stack.Names(kind)[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Factors.Parts = append(e.Factors.Parts, slices.Repeat(stack.Stack{c}, 1<<16))
	}
	e.Workloads = []experiment.Load{{Choice: experiment.Choice{Name: "udp-rr"}}}
	_, err := experiment.Resolve(e, parts, 2)
	want := "too many combinations: more than 10^18 (limit 20000): 65536 networks × 65536 filters × 65536 tunnels × " +
		"65536 encryptions; cross fewer factors"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// BenchmarkResolve expands the largest allowed experiment: time and memory grow with the number of cells, not with its
// square.
func BenchmarkResolve(b *testing.B) {
	parts := catalogue.New().Parts()
	for _, payloads := range []int{83, 166, 332} {
		e, err := experiment.Read("f.yaml", []byte(head+"workloads: [{udp-rr: {payload: ["+numbers(64, payloads)+"]}}]\n"),
			nil, parts)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d cells", 6*payloads), func(b *testing.B) {
			for b.Loop() {
				if _, err := experiment.Resolve(e, parts, 2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
