package experiment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

const neighbour = `
factors: {network: bridge, placement: same-host, pairs: 4}
workloads:
  - mix:
      - {udp-rr: {payload: 64}, share: 3}
      - tcp-stream
    alone: off
  - udp-rr
`

// Each member is a cell of its own on its share of the pairs. The members of a mix have one turn together.
func TestMix(t *testing.T) {
	r := resolve(t, read(t, neighbour), 2)
	const mix = "same-host/4/mix(udp-rr(payload=64,mode=wait)*3,tcp-stream(message=131072)*1)"
	var want []string
	for i, load := range []string{
		mix + ":udp-rr(payload=64,mode=wait)", mix + ":tcp-stream(message=131072)",
		"same-host/4/udp-rr(payload=64,mode=wait)",
	} {
		pairs, first, visit := []int{3, 1, 4}[i], []int{0, 3, 0}[i], []int{0, 0, 3}[i]
		at := func(n int) string { return fmt.Sprintf(" visit %d: %d pairs from %d", visit+n, pairs, first) }
		want = append(want,
			"host/"+load+" <  @ host/same-host/4"+at(0), "host/"+load+"#2 < host/"+load+" @ host/same-host/4#2"+at(1),
			"bridge/"+load+" < host/"+load+" @ bridge/same-host/4"+at(2))
	}
	var got []string
	for i, id := range ids(r) {
		c := r.Cells[i]
		got = append(got, fmt.Sprintf("%s visit %d: %d pairs from %d", id, c.Visit, c.Pairs, c.First))
		if mixed := c.Mix != nil; mixed != (c.LabPairs == 4) || mixed &&
			cmp.Diff([]string{"udp-rr(payload=64,mode=wait)*3", "tcp-stream(message=131072)*1"}, c.Mix) != "" {
			t.Errorf("%s: %v on %d pairs", c.ID, c.Mix, c.LabPairs)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	visits := []experiment.Visit{
		{ID: "host/" + mix, Cells: []int{0, 3}},
		{ID: "host/" + mix + "#2", Cells: []int{1, 4}},
		{ID: "bridge/" + mix, Cells: []int{2, 5}},
		{ID: r.Cells[6].ID, Cells: []int{6}},
		{ID: r.Cells[7].ID, Cells: []int{7}},
		{ID: r.Cells[8].ID, Cells: []int{8}},
	}
	if diff := cmp.Diff(visits, r.Visits); diff != "" {
		t.Errorf("visits (-want +got):\n%s", diff)
	}
	if len(r.Groups()) != 3 || len(r.Labs) != 3 {
		t.Errorf("%d groups and %d labs, want 3 and 3", len(r.Groups()), len(r.Labs))
	}
}

// A trial is as long as the longest trial of its members, and a block has each mix once.
func TestMixTrial(t *testing.T) {
	r := resolve(t, read(t, strings.Replace(neighbour, "tcp-stream", "tcp-crr", 1)), 16)
	tcp := r.Cells[3].Trial
	connections, requests := r.Cells[3].Workload.Describe(), r.Cells[0].Workload.Describe()
	warm := time.Duration(max(connections.Warm, requests.Warm) * float64(tcp))
	if connections.Trial(r.Cells[3].Params) != tcp || r.Cells[3].Warm != warm || warm == 0 {
		t.Errorf("trials of %v, %v of them warm", tcp, r.Cells[3].Warm)
	}
	if r.Cells[0].Trial != tcp || r.Cells[0].Warm != r.Cells[3].Warm || r.Cells[6].Trial >= tcp {
		t.Errorf("trials of %v and %v in the mix, %v alone", r.Cells[0].Trial, tcp, r.Cells[6].Trial)
	}
	if block, least := r.Forecast(experiment.DefaultSpread).Block, 3*(tcp+r.Cells[6].Trial); block < least ||
		block > least+least/10 {
		t.Errorf("a block takes %v, want little more than %v", block, least)
	}
	e := read(t, neighbour)
	e.Design.Trial = 300 * time.Millisecond
	if c := resolve(t, e, 16).Cells[0]; c.Trial != e.Design.Trial {
		t.Errorf("asked for %v: %v", e.Design.Trial, c.Trial)
	}
}

// Lists of values are crossed, also those of several members. A workload may occur twice with different parameters.
func TestMixCrossed(t *testing.T) {
	e := read(t, `
factors: {network: bridge, placement: [same-host, cross-host], pairs: 2}
workloads:
  - mix:
      - udp-rr: {payload: [64, 1KiB]}
      - udp-rr: {mode: wait, payload: [128, 256]}
    placement: same-host
    alone: off
`)
	seen := map[string]bool{}
	var mixes []string
	for _, c := range resolve(t, e, 2).Cells {
		if seen[c.ID] || c.Placement != "same-host" {
			t.Errorf("%s is there twice, or across hosts", c.ID)
		}
		seen[c.ID] = true
		if m := strings.Join(c.Mix, " "); !slices.Contains(mixes, m) {
			mixes = append(mixes, m)
		}
	}
	var want []string
	for _, a := range []string{"64", "1024"} {
		for _, b := range []string{"128", "256"} {
			want = append(want, "udp-rr(payload="+a+",mode=wait)*1 udp-rr(payload="+b+",mode=wait)*1")
		}
	}
	if diff := cmp.Diff(want, mixes); diff != "" || len(seen) != 4*2*3 {
		t.Errorf("%d cells of these mixes (-want +got):\n%s", len(seen), diff)
	}
}

// A mix that cannot be measured is left out with its reason.
func TestMixOmitted(t *testing.T) {
	for _, c := range []struct{ text, what, reason string }{
		{
			"factors: {network: bridge, placement: same-host, pairs: [2, 1]}\nworkloads: {mix: [udp-rr, tcp-stream]}\n",
			"same-host/1/mix(", "2 workloads need one pair each, but there are only 1 (hint: set pairs to 2 or more)",
		},
		{
			"factors: {network: bridge, placement: same-host, pairs: 2}\nworkloads: [{mix: [udp-rr: {mode: spin}, " +
				"tcp-stream]}, udp-rr]\n",
			"same-host/2/mix(", "udp-rr(payload=64,mode=spin) spins and needs a CPU of " +
				"its own, but 2 pairs share 2 CPUs (affinity split)",
		},
		{
			"factors: {network: nat, placement: cross-host, pairs: 2}\nbaseline: {network: host}\nworkloads: {mix: [udp-rr, " +
				"ping]}\n",
			"nat/cross-host/2/mix(", "ping uses no ports, and nat can only translate ports",
		},
		{
			"factors: {network: bridge, placement: same-host, pairs: 2}\nworkloads: {mix: [udp-rr, tcp-stream]}\ndesign: " +
				"{probe: softirq}\n",
			"same-host/2/mix(udp-rr(payload=64,mode=wait)*1,tcp-stream(message=131072)*1)+softirq",
			"the probe counts all members of a mix together and cannot tell them apart",
		},
		{"factors: {network: bridge, placement: same-host, pairs: 2}\nworkloads: [{mix: [udp-rr, tcp-stream]}, {mix: " +
			"[udp-rr, tcp-stream]}]\n", "same-host/2/mix(", "it is given twice"},
	} {
		r := resolve(t, read(t, c.text), 2)
		if len(r.Omitted) != 1 || !strings.HasPrefix(r.Omitted[0].What, c.what) || r.Omitted[0].Reason != c.reason {
			t.Errorf("%s: left out %+v", c.text, r.Omitted)
		}
		for _, cell := range r.Cells {
			if cell.Probe != "" {
				t.Errorf("%s is probed", cell.ID)
			}
		}
	}
}

// A mix in command-line syntax is written as in ids.
func TestParseMix(t *testing.T) {
	for in, want := range map[string][]experiment.Member{
		"mix(udp-rr,tcp-stream)": {
			{Choice: experiment.Choice{Name: "udp-rr", Params: map[string]string{}}, Share: 1},
			{Choice: experiment.Choice{Name: "tcp-stream", Params: map[string]string{}}, Share: 1},
		},
		"mix( udp-rr(payload=64, mode=wait) * 3 ,tcp-stream*2)": {
			{Choice: experiment.Choice{Name: "udp-rr", Params: map[string]string{"payload": "64", "mode": "wait"}}, Share: 3},
			{Choice: experiment.Choice{Name: "tcp-stream", Params: map[string]string{}}, Share: 2},
		},
		`mix(a(x=")*2",y='b*3'),c)`: {{Choice: experiment.Choice{
			Name: "a", Params: map[string]string{"x": ")*2", "y": "b*3"},
		}, Share: 1}, {Choice: experiment.Choice{Name: "c", Params: map[string]string{}}, Share: 1}},
	} {
		l, err := experiment.ParseLoad(in)
		if diff := cmp.Diff(want, l.Mix); err != nil || diff != "" || l.Name != experiment.Mix {
			t.Errorf("%s: %v (-want +got):\n%s", in, err, diff)
		}
	}
	for in, want := range map[string]string{
		"mix":                        `invalid workload "mix" (valid: mix(NAME*share,NAME(parameter=value,…)*share,…))`,
		"mix(udp-rr":                 `invalid workload "mix(udp-rr" (valid: mix(NAME*share,NAME(parameter=value,…)*share,…))`,
		"mix()":                      `workload "mix()": invalid workload "" (valid: NAME or NAME(parameter=value,…))`,
		"mix(udp-rr*three,ping)":     `workload "mix(udp-rr*three,ping)": share: "three" is not a whole number (valid: 1 to 1000)`,
		"mix(udp-rr*0,ping)":         `workload "mix(udp-rr*0,ping)": share: 0 is out of range (valid: 1 to 1000)`,
		"mix(udp-rr,mix(ping,ping))": `workload "mix(udp-rr,mix(ping,ping))": a mix cannot be a member of a mix: list its members in the outer mix`,
		"mix(udp-rr(payload),ping)":  `workload "mix(udp-rr(payload),ping)": invalid workload "udp-rr(payload)": "payload" is not parameter=value`,
		"mix(udp-rr,ping)x":          `invalid workload "mix(udp-rr,ping)x" (valid: mix(NAME*share,NAME(parameter=value,…)*share,…))`,
	} {
		if _, err := experiment.ParseLoad(in); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	r := resolve(t, read(t, neighbour), 2)
	_, id, _ := strings.Cut(r.Visits[0].ID, "/4/")
	l, err := experiment.ParseLoad(id)
	if err != nil {
		t.Fatal(err)
	}
	e := read(t, neighbour)
	l.Alone = false
	e.Workloads[0] = l
	if diff := cmp.Diff(ids(r), ids(resolve(t, e, 2))); diff != "" {
		t.Errorf("the mix of an id, read again (-want +got):\n%s", diff)
	}
}

// Mixes made in code are checked like those of files.
func TestMixChecked(t *testing.T) {
	for want, change := range map[string]func(*experiment.Load){
		"a mix of 1 workloads (valid: 2 to 8)":        func(l *experiment.Load) { l.Mix = l.Mix[:1] },
		"share: 0 is out of range (valid: 1 to 1000)": func(l *experiment.Load) { l.Mix[0].Share = 0 },
		"members of a mix need nettoll's own engine":  func(l *experiment.Load) { l.Driver = "iperf3" },
		"tbench cannot be a member of a mix": func(l *experiment.Load) {
			l.Mix[0].Choice = experiment.Choice{Name: "tbench"}
		},
		"tcp-stream(message=131072) is in the mix twice":          func(l *experiment.Load) { l.Mix[0] = l.Mix[1] },
		`workload udp-rr has no parameter "size" (valid: payload`: func(l *experiment.Load) { l.Mix[0].Params["size"] = "1" },
	} {
		e := read(t, neighbour)
		change(&e.Workloads[0])
		if _, err := experiment.Resolve(e, catalogue.New().Parts(), 2); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzParseLoad checks that the result is a workload or an error, never both, and that nothing panics.
func FuzzParseLoad(f *testing.F) {
	for _, s := range []string{
		"udp-rr(payload=64,driver=ping)", "mix(udp-rr*3,tcp-stream(message=1KiB)*2)", "mix(", "mix(*)", "mix(a*1*2,b)",
		`mix(a(x="*")*2,b)`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := experiment.ParseLoad(s)
		if (err == nil) != (l.Name != "") || (l.Mix != nil) != (err == nil && experiment.IsMix(s)) {
			t.Fatalf("%q: %+v and %v", s, l, err)
		}
		for _, m := range l.Mix {
			if m.Name == "" || m.Share < 1 {
				t.Fatalf("%q: %+v", s, l)
			}
		}
	})
}

// By default, each member is also measured alone: on its pairs in the labs of the mix, in visits of its own that are as
// long as those of the mix, and in a group with a twin.
func TestMixAlone(t *testing.T) {
	e := read(t, strings.Replace(neighbour, "    alone: off\n", "", 1))
	r, without := resolve(t, e, 2), resolve(t, read(t, neighbour), 2)
	if cli, err := experiment.ParseLoad("mix(udp-rr*3,tcp-stream)"); err != nil || !cli.Alone || !e.Workloads[0].Alone {
		t.Errorf("alone: %v on the command line, %v in a file, %v", cli.Alone, e.Workloads[0].Alone, err)
	}
	var alone []experiment.Cell
	rest := map[string]experiment.Cell{}
	for _, c := range r.Cells {
		if rest[c.ID] = c; c.Alone != "" {
			alone = append(alone, c)
		}
	}
	if len(alone) != 6 || len(r.Cells) != len(without.Cells)+6 || len(r.Labs) != len(without.Labs) ||
		len(r.Visits) != len(without.Visits)+6 {
		t.Fatalf("%d cells alone of %d, %d labs and %d visits", len(alone), len(r.Cells), len(r.Labs), len(r.Visits))
	}
	for _, c := range alone {
		in, known := rest[c.Alone]
		if !known || c.Lab != in.Lab || c.First != in.First || c.Pairs != in.Pairs || c.Trial != in.Trial ||
			c.Warm != in.Warm || c.Twin != in.Twin || c.Mix != nil || c.LabPairs != 4 || c.Group == in.Group ||
			c.Stack != in.Stack {
			t.Errorf("%s is %+v, in the mix %+v", c.ID, c, in)
		}
		if of := rest[c.Baseline]; c.Baseline != "" && (of.Group != c.Group || of.Twin) {
			t.Errorf("%s has the baseline %q", c.ID, c.Baseline)
		}
		if c.Governs() || len(r.Visits[c.Visit].Cells) != 1 || c.Has(c.First-1) || !c.Has(c.First) || c.Has(c.First+c.Pairs) {
			t.Errorf("%s governs, shares its visit or has other pairs", c.ID)
		}
	}
}
