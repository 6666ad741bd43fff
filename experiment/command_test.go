package experiment_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

// Commands come through files unchanged, whatever characters they contain. They are in the records, but not in ids.
func TestCommands(t *testing.T) {
	const source, figure = `iperf3 -c {remote} -p {port} -t {seconds} --json, "it's" '(1)'`,
		`regexp:^"rate": ([0-9.]+),\s(?:x|y)`
	for _, text := range []string{
		"workloads:\n  - command:\n      source: >-\n        iperf3 -c {remote} -p {port}\n        -t {seconds} --json, " +
			"\"it's\" '(1)'\n      figure: 'regexp:^\"rate\": ([0-9.]+),\\s(?:x|y)'\n      metric: goodput\n",
		`workloads: [{command: {source: "iperf3 -c {remote} -p {port} -t {seconds} --json, \"it's\" '(1)'", figure: "regexp:^\"rate\": ([0-9.]+),\\s(?:x|y)", metric: goodput}}]`,
	} {
		e, err := experiment.Read("f.yaml", []byte(head+text), nil, catalogue.New().Parts())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		r, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c := r.Cells[0]
		if want := "host/same-host/1/command(name=iperf3,metric=goodput)"; c.ID != want || c.Primary != "goodput" {
			t.Errorf("id %s, want %s; primary %s", c.ID, want, c.Primary)
		}
		if diff := cmp.Diff([]string{source, figure, ""}, []string{
			c.Cell.Params["source"], c.Cell.Params["figure"], c.Cell.Params["sink"],
		}); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
	}
}

// Two commands with the same name count as one if they are equal. Otherwise the experiment is refused, because a reader
// could not distinguish them.
func TestCommandsOfOneName(t *testing.T) {
	resolve := func(text string) (*experiment.Resolved, error) {
		e, err := experiment.Read("f.yaml", []byte(head+"workloads:\n"+text), nil, catalogue.New().Parts())
		if err != nil {
			t.Fatal(err)
		}
		return experiment.Resolve(e, catalogue.New().Parts(), 2)
	}
	const one = "  - command: {source: 'a {remote}', figure: 'json:a'}\n"
	if r, err := resolve(one + one); err != nil || len(r.Omitted) == 0 {
		t.Errorf("the same twice: %v, %+v", err, r)
	}
	want := "two workloads named command(name=a,metric=latency_mean) differ in source, unit: give each its " +
		"own name"
	if _, err := resolve(one + "  - command: {source: 'a -x', figure: 'json:a', unit: ms}\n"); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if r, err := resolve(one + "  - command: {name: b, source: 'a -x', figure: 'json:a', unit: ms}\n"); err != nil ||
		len(r.Omitted) > 0 {
		t.Errorf("two names: %v, %+v", err, r)
	}
}

// A workload can be limited to some of the experiment's numbers of pairs.
func TestWorkloadWithPairs(t *testing.T) {
	read := func(text string) (*experiment.Resolved, error) {
		e, err := experiment.Read("f.yaml",
			[]byte("factors: {network: bridge, placement: same-host, pairs: [1, 10]}\nworkloads:\n"+text), nil,
			catalogue.New().Parts())
		if err != nil {
			return nil, err
		}
		return experiment.Resolve(e, catalogue.New().Parts(), 2)
	}
	r, err := read("  - udp-rr: {pairs: 1}\n  - tcp-rr\n  - ping: {pairs: [10, 3]}\n")
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]int{}
	for _, c := range r.Cells {
		cells[fmt.Sprint(c.Cell.Workload, " ", c.Pairs)]++
	}
	if diff := cmp.Diff(map[string]int{"udp-rr 1": 3, "tcp-rr 1": 3, "tcp-rr 10": 3, "ping 10": 3}, cells); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := read("  - udp-rr: {pairs: 3}\n"); err == nil ||
		!strings.Contains(err.Error(), "nothing is left to measure") {
		t.Error(err)
	}
	if _, err := read("  - udp-rr: {pairs: 0}\n"); err == nil ||
		!strings.Contains(err.Error(), "workloads.udp-rr.pairs: 0 is out of range (valid: 1 to 500)") {
		t.Error(err)
	}
}
