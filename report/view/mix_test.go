package view_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/page"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
)

// beside makes a run of mixes, in labs with these numbers of pairs, of which the stream has one, and of the requests
// alone.
func beside(t testing.TB, pairs []int, alone ...int) *made {
	var loads []load
	for _, n := range pairs {
		requests, stream := udprr("same-host", n), tcpstream("same-host")
		mix := fmt.Sprintf("mix(%s*3,%s*1):", requests.id, stream.id)
		requests.id, stream.id, stream.pairs = mix+requests.id, mix+stream.id, n
		loads = append(loads, requests, stream)
	}
	for _, n := range alone {
		loads = append(loads, udprr("same-host", n))
	}
	m := start(t, loads, "host", "bridge")
	for i := range m.run.Cells {
		c := &m.run.Cells[i]
		if !strings.Contains(c.ID, "mix(") {
			continue
		}
		c.Mix, c.LabPairs = []string{"udp-rr(payload=64,mode=wait)*3", "tcp-stream(message=131072)*1"}, c.Pairs
		c.Others = []string{"tcp-stream(message=131072)"}
		if c.Pairs--; c.Workload == "tcp-stream" {
			c.Pairs, c.Others = 1, []string{"udp-rr(payload=64,mode=wait)"}
		}
	}
	m.measure(loads, 5, 8, map[string]map[string]float64{"bridge": bridge()})
	return m
}

// Every view names the other members of a mix, and the member's share of the pairs.
func TestMix(t *testing.T) {
	m := beside(t, []int{4}, 3)
	var b bytes.Buffer
	if err := text.Write(&b, m.data(), report.Options{Width: 200}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^udp-rr  payload 64, mode wait · same host · 3 of 4 pairs · mixed with tcp-stream\(message=131072\)$`,
		`(?m)^tcp-stream  message 131072 · same host · 1 of 4 pairs · mixed with udp-rr\(payload=64,mode=wait\)$`,
		`(?m)^udp-rr  payload 64, mode wait · same host · 3 pairs$`,
		`to round trips on one host, 3 of 4 pairs,\s+mixed\s+with\s+tcp-stream\(message=131072\)`,
		`to round trips on one host, 3 pairs,\s+not\s+mixed`,
	} {
		if !regexp.MustCompile(want).MatchString(b.String()) {
			t.Errorf("it does not say %s:\n%s", want, &b)
		}
	}
	b.Reset()
	if err := export.CSV(&b, m.data()); err != nil {
		t.Fatal(err)
	}
	for _, row := range table(t, b.Bytes()) {
		mix, pairs := "", ""
		if strings.Contains(row["cell"], "mix(") {
			mix, pairs = "udp-rr(payload=64,mode=wait)*3 tcp-stream(message=131072)*1", "4"
		}
		if row["mix"] != mix || row["lab_pairs"] != pairs {
			t.Errorf("%s: mix %q, lab_pairs %q", row["cell"], row["mix"], row["lab_pairs"])
		}
	}
	for _, format := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return export.JSONL(b, m.data()) },
		func(b *bytes.Buffer) error { return page.Write(b, m.data(), report.Options{}) },
	} {
		b.Reset()
		if err := format(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "mixed with tcp-stream(message=131072)") &&
			!strings.Contains(b.String(),
				`"mix":["udp-rr(payload=64,mode=wait)*3","tcp-stream(message=131072)*1"],"lab_pairs":4`) {
			t.Errorf("nothing of a mix in %.200s", &b)
		}
	}
}

// Every view shows for each stack the effect of the members of a mix on each other. Members alone are not in any table
// of stacks.
func TestBeside(t *testing.T) {
	m := beside(t, []int{4})
	var alone []measure.Cell
	for _, c := range m.run.Cells {
		first, twin := strings.CutSuffix(c.ID, "#2")
		c.Alone, c.Mix, c.Group, c.ID = c.ID, nil, c.Group+"|alone", first+"+alone"
		if twin {
			c.ID += "#2"
		}
		if c.Baseline != "" {
			c.Baseline += "+alone"
		}
		alone = append(alone, c)
	}
	m.run.Cells = append(m.run.Cells, alone...)
	for _, x := range slices.Clone(m.log.Trials) {
		x.Metrics = maps.Clone(x.Metrics)
		for k := range x.Metrics {
			if strings.HasPrefix(k, "latency") {
				x.Metrics[k] /= 2 // next to the stream, requests take twice as long
			}
		}
		first, twin := strings.CutSuffix(x.Cell, "#2")
		if x.Cell = first + "+alone"; twin {
			x.Cell += "#2"
		}
		m.log.Trials = append(m.log.Trials, x)
	}
	for format, wants := range map[string][]string{
		"text": {
			`(?m)^Effect of the mix$`,
			`bridge: udp-rr mixed with tcp-stream\(message=131072\):\s+latency\s+p50\s+×2\.\d+\s+compared\s+with\s+alone\s+\(95\s+%\s+interval\s[^)]*\):\s+slower\.`,
			`loopback: tcp-stream mixed with udp-rr\(payload=64,mode=wait\):\s+goodput\s+[+−]?[0-9.]+ %`,
		},
		"html":     {`<h2>Effect of the mix</h2>`, `data-l="alone">`},
		"markdown": {`Effect of the mix`},
		"jsonl":    {`(?m)^\{"type":"beside","cell":"bridge/.*"metric":"latency_p50",.*"over":"bridge/.*\+alone".*"verdict":"slower"`},
		"csv":      {`(?m)^"bridge/[^"]*:udp-rr[^"]*",.*latency_p50,.*,2[.0-9]*,[0-9.]+,[0-9.]+,slower,.*,"bridge/.*\+alone",,,$`},
	} {
		var b bytes.Buffer
		if err := view.Write(&b, format, m.data(), report.Options{Width: 200}); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !regexp.MustCompile(want).MatchString(b.String()) {
				t.Errorf("%s does not say %s:\n%.6000s", format, want, &b)
			}
		}
		if n := strings.Count(b.String(), "udp-rr  payload 64"); format == "text" && n != 1 {
			t.Errorf("%d tables of requests, want that of the mix:\n%s", n, &b)
		}
	}
	for why, spoil := range map[string]func(x *measure.Trial) (kept bool){
		"its stack leaks": func(*measure.Trial) bool { return true }, // by a proof, see below
		"too few samples or generations": func(x *measure.Trial) bool {
			x.Metrics = maps.Clone(x.Metrics)
			delete(x.Metrics, "latency_p50")
			return true
		},
		"it failed alone: no route": func(x *measure.Trial) bool {
			if strings.Contains(x.Cell, "+alone") {
				x.Metrics, x.Failed = nil, "no route"
			}
			return true
		},
		"it was not measured in the mix": func(x *measure.Trial) bool { return strings.Contains(x.Cell, "+alone") },
	} {
		other := *m
		other.log.Trials = nil
		for _, x := range m.log.Trials {
			if !strings.HasPrefix(x.Cell, "bridge/") || !strings.Contains(x.Cell, ":udp-rr") || spoil(&x) {
				other.log.Trials = append(other.log.Trials, x)
			}
		}
		if why == "its stack leaks" {
			lab := slices.IndexFunc(m.run.Cells, func(c measure.Cell) bool { return strings.HasPrefix(c.ID, "bridge/") })
			other.log.Proofs = append(slices.Clone(m.log.Proofs), measure.Proof{
				Lab: m.run.Cells[lab].Lab, Generation: 1, Name: measure.MatrixLeaks, Tried: map[string]int{"ipv4": 1},
			})
		}
		var b bytes.Buffer
		if err := view.Write(&b, "text", other.data(), report.Options{Width: 200}); err != nil {
			t.Fatal(err)
		}
		want := "bridge: udp-rr mixed with tcp-stream(message=131072): latency p50 is not compared with alone: " + why + "."
		if said := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%.3000s", want, &b)
		}
	}
}

// Curves never join cells of a mix and cells alone; mixes have curves of their own.
func TestMixCurves(t *testing.T) {
	if names, _ := curves(t, beside(t, []int{4}, 1, 2)); len(names) > 0 {
		t.Errorf("curves %q of two points alone and one beside a stream", names)
	}
	names, _ := curves(t, beside(t, []int{2, 4, 8}, 1))
	if want := []string{"curve-01-pairs-udp-rr-payload-64-mode-wait-same-host-mixed-with-tcp-str"}; len(names) != 1 ||
		!strings.HasPrefix(names[0], want[0]) {
		t.Errorf("curves %q, want %q", names, want)
	}
}

// The members of a mix share their windows, so that the time measured counts once.
func TestMixMeasured(t *testing.T) {
	m := beside(t, []int{4})
	for i := range m.log.Trials {
		x := &m.log.Trials[i]
		x.Start = float64(x.Block)
		switch {
		case strings.HasSuffix(x.Cell, "#2"):
			x.Start += 0.1
		case strings.HasPrefix(x.Cell, "bridge"):
			x.Start += 0.2
		}
	}
	if got, want := m.analysis().Measured, 0.05*float64(len(m.log.Trials))/2; math.Abs(got-want) > 1e-9 {
		t.Errorf("measured for %v s, want %v", got, want)
	}
}
