package experiment_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// given reads an experiment with changes from flags.
func given(t *testing.T, text string, settings ...experiment.Setting) *experiment.Resolved {
	t.Helper()
	e, err := experiment.Read("f.yaml", []byte(text), settings, catalogue.New().Parts())
	if err != nil {
		t.Fatal(err)
	}
	return resolve(t, e, 2)
}

// compared lists the cells of a run with their baselines, MTUs and congestion controls.
func compared(r *experiment.Resolved) []string {
	var list []string
	for _, c := range r.Cells {
		l := r.Labs[c.Lab]
		list = append(list, fmt.Sprintf("%s : %s %d %s", c.ID, c.Baseline, l.MTU, l.Congestion))
	}
	return list
}

const streams = "workloads: [tcp-stream]\n"

// An MTU is a setting of a lab, a congestion control of a stack. With one network, the first value of each is the
// baseline.
func TestSettingsOfOneNetwork(t *testing.T) {
	r := given(t, "factors: {network: bridge, placement: same-host, mtu: [1500, 9000], congestion_control: [cubic, bbr]}\n"+
		"workloads: [tcp-stream, udp-rr]\n")
	const stream, rr = "/same-host/1/tcp-stream(message=131072)", "/same-host/1/udp-rr(payload=64,mode=wait)"
	want := []string{
		"bridge" + stream + " :  0 ",
		"bridge" + stream + "#2 : bridge" + stream + " 0 ",
		"bridge+congestion=bbr" + stream + " : bridge" + stream + " 0 bbr",
		"bridge+mtu=9000" + stream + " : bridge" + stream + " 9000 ",
		"bridge+mtu=9000+congestion=bbr" + stream + " : bridge" + stream + " 9000 bbr",
		"bridge" + rr + " :  0 ",
		"bridge" + rr + "#2 : bridge" + rr + " 0 ",
		"bridge+mtu=9000" + rr + " : bridge" + rr + " 9000 ",
	}
	if diff := cmp.Diff(want, compared(r)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	e := r.Experiment
	if e.Tune.MTU != 1500 || e.Tune.Congestion != "cubic" || !strings.HasPrefix(e.Implied, "bridge, because it is the only network") {
		t.Errorf("%+v, %q", e.Tune, e.Implied)
	}
	for i, want := range []string{"bridge", "bridge", "bridge+congestion=bbr", "bridge+mtu=9000", "bridge+mtu=9000+congestion=bbr"} {
		c := r.Cells[i].Cell
		if c.Label != want {
			t.Errorf("%s is called %s, want %s", c.ID, c.Label, want)
		}
	}
	last := r.Cells[4].Cell
	if mtu, congestion := last.Part("mtu"), last.Part("congestion_control"); mtu != "9000" || congestion != "bbr" {
		t.Errorf("recorded: MTU %s, congestion control %s", mtu, congestion)
	}
	b, err := json.Marshal(last)
	if err != nil || !strings.Contains(string(b), `"mtu":"9000","congestion_control":"bbr","placement":`) {
		t.Errorf("%s, %v", b, err)
	}
}

// With several networks, each stack is measured with each MTU, the baseline too.
func TestSettingsOfNetworks(t *testing.T) {
	r := given(t, "factors: {network: [bridge, routed], placement: same-host, mtu: [1500, 9000]}\n"+streams)
	var stacks []string
	for _, c := range r.Cells {
		stacks = append(stacks, c.Stack)
	}
	want := []string{"host", "host", "host+mtu=9000", "bridge", "bridge+mtu=9000", "routed", "routed+mtu=9000"}
	if diff := cmp.Diff(want, stacks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Experiment.Implied != "" {
		t.Error(r.Experiment.Implied)
	}
}

// A single value is that of the experiment, as under tune: ids and records equal those of old runs.
func TestOneSetting(t *testing.T) {
	one := given(t, "factors: {network: bridge, placement: same-host, mtu: 9000, congestion-control: reno}\n"+streams)
	old := given(t, "factors: {network: bridge, placement: same-host}\ntune: {mtu: 9000, congestion-control: reno}\n"+streams)
	one.Experiment.Source, old.Experiment.Source = "", ""
	if diff := cmp.Diff(encoded(t, old.Experiment), encoded(t, one.Experiment)); diff != "" {
		t.Errorf("the experiment (-tune +factors):\n%s", diff)
	}
	if diff := cmp.Diff(ids(old), ids(one)); diff != "" {
		t.Errorf("the cells (-tune +factors):\n%s", diff)
	}
	if c := one.Cells[0].Cell; c.Part("mtu") != "" {
		t.Errorf("%s has the MTU %s", c.ID, c.Part("mtu"))
	}
	flag := experiment.Setting{Flag: "--mtu", Path: "factors.mtu", Value: `["4000"]`}
	if r := given(t, "factors: {network: bridge}\ntune: {mtu: 9000}\n"+streams, flag); r.Experiment.Tune.MTU != 4000 {
		t.Errorf("a flag does not replace the file: %+v", r.Experiment.Tune)
	}
}

func encoded(t *testing.T, e experiment.Experiment) string {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A value that is given twice is an error, also in flags.
func TestSettingsTwice(t *testing.T) {
	flag := func(name, path, value string) experiment.Setting {
		return experiment.Setting{Flag: name, Path: path, Value: value}
	}
	for want, c := range map[string]struct {
		text     string
		settings []experiment.Setting
	}{
		`f.yaml:2:8: mtu is given under factors too (first at line 1)`: {
			"factors: {network: bridge, mtu: [1500, 9000]}\ntune: {mtu: 1400}\n", nil,
		},
		`--set tune.mtu=1400: mtu is given under factors too`: {
			head, []experiment.Setting{flag("--mtu", "factors.mtu", "[9000]"), flag("--set", "tune.mtu", "1400")},
		},
		`--mtu: factors.mtu: "1500" is listed twice`: {head, []experiment.Setting{flag("--mtu", "factors.mtu", "[1500, 1500]")}},
		`--network: network bridge is listed twice`: {
			head, []experiment.Setting{flag("--network", "factors.network", "[bridge, bridge]")},
		},
		`--congestion-control: factors.congestion-control: auto can only be the first one`: {
			head, []experiment.Setting{flag("--congestion-control", "factors.congestion-control", "[bbr, auto]")},
		},
		`--baseline: baseline: the value is empty`: {head, []experiment.Setting{flag("--baseline", "baseline", `""`)}},
	} {
		_, err := experiment.Read("f.yaml", []byte(c.text+streams), c.settings, catalogue.New().Parts())
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A resumed run has the same cells as before: all settings are in its record.
func TestSettingsAreRecorded(t *testing.T) {
	r := given(t, "baseline: {network: nat, mtu: 4000}\n"+
		"factors: {network: bridge, mtu: [1500, 9000], congestion_control: [auto, bbr]}\n"+
		"stacks: [{name: large, network: bridge, mtu: 65535, congestion_control: reno}]\n"+streams)
	var again experiment.Experiment
	if err := json.Unmarshal([]byte(encoded(t, r.Experiment)), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(compared(r), compared(resolve(t, again, 2))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one := given(t, "factors: {network: bridge, mtu: [1500, 9000]}\n"+streams).Experiment
	again = experiment.Experiment{}
	if err := json.Unmarshal([]byte(encoded(t, one)), &again); err != nil || again.Implied != one.Implied ||
		one.Implied == "" {
		t.Errorf("%v: the baseline is %q and was %q, which are facts of the run", err, again.Implied, one.Implied)
	}
	for _, want := range []string{
		"nat+mtu=4000/cross-host/1/tcp-stream(message=131072)", "large/cross-host/1/tcp-stream(message=131072)",
		"bridge+mtu=9000+congestion=bbr/cross-host/1/tcp-stream(message=131072)",
	} {
		if !slices.ContainsFunc(r.Cells, func(c experiment.Cell) bool { return c.ID == want }) {
			t.Errorf("no cell %s among %q", want, ids(r))
		}
	}
	large := slices.IndexFunc(r.Labs, func(l experiment.Lab) bool { return l.Named == "large" })
	if large < 0 || r.Labs[large].MTU != 65535 || r.Labs[large].Congestion != "reno" {
		t.Errorf("labs: %+v", r.Labs)
	}
}

// Settings with which a stack cannot be measured are left out, with the reason; so are repetitions.
func TestSettingsLeftOut(t *testing.T) {
	r := given(t, "factors: {network: bridge, mtu: [1500, 9000], congestion_control: [cubic, bbr]}\nunderlay: {mtu: 1500}\n"+
		"workloads: [tcp-stream: {congestion_control: reno}, udp-rr, tcp-rr]\n")
	for _, want := range []experiment.Omission{
		{
			What: "bridge+mtu=9000/cross-host", Stack: "bridge+mtu=9000",
			Reason: "its containers have an MTU of 1500, as with mtu=1500 (underlay 1500; hint: raise underlay.mtu)",
		},
		{
			What:   "bridge+congestion=bbr/same-host/1/udp-rr(payload=64,mode=wait)",
			Reason: "udp-rr has no TCP connection whose congestion control could be set", Stack: "bridge+congestion=bbr",
		},
		{
			What:   "bridge+congestion=bbr/same-host/1/tcp-stream(message=131072,congestion=reno)",
			Reason: "tcp-stream has a congestion control of its own, reno", Stack: "bridge+congestion=bbr",
		},
		{
			What:   "cross-host/1/udp-rr(payload=64,mode=wait)",
			Reason: "no stack is left to compare with the baseline bridge",
		},
	} {
		if !slices.Contains(r.Omitted, want) {
			t.Errorf("%+v is not left out, but %+v", want, r.Omitted)
		}
	}
	for _, c := range r.Cells {
		if c.Stack == "bridge+mtu=9000" && c.Placement != "same-host" {
			t.Errorf("%s is measured", c.ID)
		}
	}
}

// A filter is left out where some packets of the network do not pass it.
func TestUnfilterable(t *testing.T) {
	r := given(t, "baseline: {network: host}\nfactors: {network: [{ipvlan: {mode: [l3, l3s]}}], filter: [none, nftables], "+
		"placement: [same-host, cross-host]}\n"+streams)
	want := []experiment.Omission{{
		What: "ipvlan(mode=l3s)+nftables/cross-host", Stack: "ipvlan(mode=l3s)+nftables",
		Reason: "with mode=l3s packets from other hosts do not pass the netfilter of the container, where filters under " +
			"ipvlan are (use mode=l3 or mode=l2)",
	}}
	left := slices.DeleteFunc(r.Omitted, func(o experiment.Omission) bool { return !strings.Contains(o.What, "ipvlan") })
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A network whose links cannot have an MTU is left out for that MTU.
func TestNarrowNetwork(t *testing.T) {
	r := given(t, "factors: {network: [bridge, ovs], placement: same-host, mtu: [1500, 65521, 65535]}\n"+streams)
	want := []experiment.Omission{{
		What: "ovs+mtu=65535/same-host", Reason: "its links cannot have an MTU of 65535 (at most 65521)", Stack: "ovs+mtu=65535",
	}}
	if diff := cmp.Diff(want, r.Omitted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := r.Cells[len(r.Cells)-1].Stack; last != "ovs+mtu=65521" {
		t.Errorf("the last stack is %s", last)
	}
}

// The baseline is a stack as in ids, or a named one.
func TestBaseline(t *testing.T) {
	const tail = "factors: {network: [bridge, nat], placement: same-host}\n" +
		"stacks: [{name: mine, network: routed, filter: nftables}]\nworkloads: [udp-rr]\n"
	for baseline, want := range map[string][]string{
		"bridge":                          {"bridge", "bridge", "mine"},
		"bridge+nftables(rules=10)":       {"bridge+nftables(rules=10)", "bridge+nftables(rules=10)", "bridge", "mine"},
		"macvlan+mtu=9000":                {"macvlan+mtu=9000", "macvlan+mtu=9000", "bridge", "mine"},
		"mine":                            {"mine", "mine", "bridge"},
		"{network: bridge, mtu: 1500}":    {"bridge", "bridge", "mine"},
		"routed+nftables+congestion=reno": {"routed+nftables+congestion=reno", "routed+nftables+congestion=reno", "bridge", "mine"},
	} {
		var stacks []string
		for _, c := range given(t, "baseline: "+baseline+"\n"+tail).Cells {
			stacks = append(stacks, c.Stack)
		}
		if diff := cmp.Diff(want, stacks); diff != "" {
			t.Errorf("baseline %s (-want +got):\n%s", baseline, diff)
		}
		flag := experiment.Setting{Flag: "--baseline", Path: "baseline", Value: baseline}
		if r := given(t, tail, flag); r.Cells[0].Stack != want[0] {
			t.Errorf("--baseline %s is %s", baseline, r.Cells[0].Stack)
		}
	}
	for baseline, want := range map[string]string{
		"yours":               `f.yaml:1:11: unknown network "yours" (known: host, `,
		"bridge+nftabels":     `f.yaml:1:11: unknown filter or tunnel or encryption "nftabels" (known: none, iptables, ipset, nftables, ovs, ebpf, ipip, `,
		"bridge+mtu=12":       `f.yaml:1:11: mtu: "12" is out of range (valid: 1280 to 65535 bytes)`,
		"bridge+mut=12":       `f.yaml:1:11: unknown setting "mut" (known: mtu, congestion)`,
		"bridge+congestion=x": `f.yaml:1:11: congestion: invalid value "x" (valid: cubic, reno, bbr)`,
		"[bridge]":            `f.yaml:1:11: baseline is a list (valid: a value such as bridge+nftables(rules=10), or a map with network, `,
	} {
		_, err := experiment.Read("f.yaml", []byte("baseline: "+baseline+"\n"+tail), nil, catalogue.New().Parts())
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("baseline %s: %v, want %s", baseline, err, want)
		}
	}
}

// With a single network, filters from flags are compared with that network. Files keep their meaning.
func TestImpliedBaseline(t *testing.T) {
	flag := func(name, value string) experiment.Setting {
		return experiment.Setting{Flag: "--" + name, Path: "factors." + name, Value: value}
	}
	filter := flag("filter", "[none, {nftables: {rules: [10, 100]}}]")
	for _, c := range []struct {
		name, text string
		settings   []experiment.Setting
		want       []string
	}{
		{"flags", "factors: {network: nat}\n", []experiment.Setting{flag("network", "[bridge]"), filter}, []string{
			"bridge", "bridge", "bridge+nftables(rules=10)", "bridge+nftables(rules=100)",
		}},
		{"the network of a file", "factors: {network: routed}\n", []experiment.Setting{filter}, []string{
			"routed", "routed", "routed+nftables(rules=10)", "routed+nftables(rules=100)",
		}},
		{"a file", "factors: {network: bridge, filter: nftables}\n", nil, []string{"host", "host", "bridge+nftables"}},
		{"a baseline", "baseline: {network: host}\nfactors: {network: bridge}\n", []experiment.Setting{filter}, []string{
			"host", "host", "bridge", "bridge+nftables(rules=10)", "bridge+nftables(rules=100)",
		}},
		{
			"several networks", "factors: {network: [bridge, routed]}\n",
			[]experiment.Setting{flag("filter", "[none, nftables]")},
			[]string{"host", "host", "bridge", "bridge+nftables", "routed", "routed+nftables"},
		},
		{"no filter", "factors: {network: bridge}\n", []experiment.Setting{flag("filter", "[none]")}, []string{
			"host", "host", "bridge",
		}},
		{
			"a network's parameters", "factors: {network: {bridge: {hairpin: on}}}\n",
			[]experiment.Setting{flag("filter", "[nftables]")},
			[]string{"bridge(hairpin=on)", "bridge(hairpin=on)", "bridge(hairpin=on)+nftables"},
		},
	} {
		text := strings.Replace(c.text, "}\n", ", placement: same-host}\n", 1)
		if i := strings.Index(c.text, "factors: "); i > 0 {
			text = c.text[:i] + strings.Replace(c.text[i:], "}\n", ", placement: same-host}\n", 1)
		}
		r := given(t, text+"workloads: [udp-rr]\n", c.settings...)
		var stacks []string
		for _, cell := range r.Cells {
			stacks = append(stacks, cell.Stack)
		}
		if diff := cmp.Diff(c.want, stacks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if implied := r.Experiment.Implied != ""; implied != (c.want[0] != "host") {
			t.Errorf("%s: %q", c.name, r.Experiment.Implied)
		}
	}
}

// The error about command-line syntax in a file shows the syntax of files, for every kind.
func TestCommandLineSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"factors: {network: bridge(hairpin=on)}\n" + streams:                         "in a file write {bridge: {hairpin: on}}",
		"factors: {network: bridge, filter: 'nftables(rules=[10,100])'}\n" + streams: "in a file write {nftables: {rules: [10, 100]}}",
		head + "workloads: under-load(share=50%)\n":                                  "in a file write {under-load: {share: 50%}}",
		head + "workloads:\n  - tcp-stream(message=[64,1024],driver=iperf3)\n":       "in a file write {tcp-stream: {driver: iperf3, message: [64, 1024]}}",
		head + "workloads:\n  - mix(udp-rr(payload=64)*3,tcp-stream)\n":              "in a file write {mix: [{udp-rr: {payload: 64}, share: 3}, tcp-stream]}",
		head + "workloads:\n  - mix: [udp-rr(payload=1), tcp-stream]\n":              "in a file write {udp-rr: {payload: 1}}",
		"stacks: [{name: a, network: bridge(hairpin=on)}]\n" + streams:               "in a file write {bridge: {hairpin: on}}",
		"baseline: {network: bridge(hairpin=on)}\n" + head + streams:                 "in a file write {bridge: {hairpin: on}}",
		"factors: {network: brigde(hairpin=on)}\n" + streams:                         `unknown network "brigde" (known: host, `,
		"factors: {network: bridge(hairpin=on}\n" + streams:                          "the closing parenthesis is missing",
		"factors: {network: nftables}\n" + streams:                                   "nftables is a filter, not a network",
		"factors: {network: bridge, filter: routed}\n" + streams:                     "routed is a network, not a filter",
		head + "workloads: iperf3\n": "iperf3 is a driver, not a workload: write 'udp-rate(driver=iperf3)' or 'tcp-stream(driver=iperf3)'; " +
			"in a file such as {udp-rate: {driver: iperf3}}",
		"factors: {network: cilium}\n" + streams: "the nearest is ebpf: network plugins with a daemon of their own are measured on a cluster",
		"factors: {network: udp-rr}\n" + streams: "udp-rr is a workload, not a network",
	} {
		_, err := experiment.Read("f.yaml", []byte(text), nil, catalogue.New().Parts())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v, want %s", text, err, want)
		}
	}
}

// Command-line syntax is translated into YAML with the same meaning.
func TestFlow(t *testing.T) {
	for given, want := range map[string]string{
		"udp-rr":                           `"udp-rr"`,
		"tcp-stream(share=[10%, 50%],a=1)": `{"tcp-stream": {"a": "1", "share": ["10%", "50%"]}}`,
		"mix(udp-rr(payload=[1,2])*3,a)":   `{mix: [{"udp-rr": {"payload": ["1", "2"]}, share: 3}, "a"]}`,
		"mix(a*2,b(x=1))":                  `{mix: [{"a": {}, share: 2}, {"b": {"x": "1"}}]}`,
	} {
		if got, err := experiment.FlowLoad(given); err != nil || got != want {
			t.Errorf("%s is written %s (%v), want %s", given, got, err, want)
		}
	}
	for _, bad := range []string{"mix(a,b", "a(x=[1)", "mix(a(x=[1),b)", "mix(mix(a,b),c)"} {
		if got, err := experiment.FlowLoad(bad); err == nil {
			t.Errorf("%s is written %s", bad, got)
		}
	}
}

// Records hold the settings of each cell if they are not the same for all.
func TestRecordedSettings(t *testing.T) {
	r := given(t, "factors: {network: bridge, placement: same-host}\n"+
		"stacks: [{name: large, network: bridge, mtu: 9000}]\n"+streams)
	want := map[string]string{"host": "1500", "bridge": "1500", "large": "9000"}
	for _, c := range r.Cells {
		if got := c.Part("mtu"); got != want[c.Stack] || c.Part("congestion_control") != "" {
			t.Errorf("%s: MTU %s, congestion control %q", c.ID, got, c.Part("congestion_control"))
		}
		if c.Stack == "large" && c.Label != "large" {
			t.Errorf("it is called %s", c.Label)
		}
	}
	run := measure.Run{Cells: []measure.Cell{r.Cells[0].Cell}}
	if kinds := run.Kinds(); !slices.Contains(kinds, "mtu") || slices.Contains(kinds, "congestion_control") {
		t.Errorf("columns %q", kinds)
	}
}
