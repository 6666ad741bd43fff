package view_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// made is a run with random values from a seed.
type made struct {
	run measure.Run
	log measure.Log
	t   testing.TB
	rnd *rand.Rand
}

// load is a workload of a made run.
type load struct {
	name, id, placement string
	params              map[string]string
	pairs               int
	primary             string
	base                map[string]float64 // metrics of the baseline
}

func udprr(placement string, pairs int) load {
	return load{
		name: "udp-rr", id: "udp-rr(payload=64,mode=wait)", placement: placement,
		params: map[string]string{"payload": "64", "mode": "wait"}, pairs: pairs, primary: "latency_p50",
		base: map[string]float64{
			"latency_p50": 13.2e-6, "latency_mean": 14e-6, "transaction_rate": 71e3 * float64(pairs), "loss": 0, "cpu_busy": 1.1,
			"cpu_per_packet": 2.1e-6,
		},
	}
}

func tcpstream(placement string) load {
	return load{
		name: "tcp-stream", id: "tcp-stream(message=131072)", placement: placement,
		params: map[string]string{"message": "131072"}, pairs: 1, primary: "goodput",
		base: map[string]float64{"goodput": 34e9, "cpu_busy": 1.8, "service_demand": 310e-12, "retransmits": 0.4},
	}
}

func udprate(payload string) load {
	return load{
		name: "udp-rate", id: "udp-rate(payload=" + payload + ")", placement: "cross-host",
		params: map[string]string{"payload": payload}, pairs: 1, primary: "packet_rate",
		base: map[string]float64{"packet_rate": 812e3, "packet_rate_sent": 812e3, "loss": 0.001, "cpu_per_packet": 1.2e-6},
	}
}

// start makes a run of stacks under loads. The first stack is the baseline, which has a twin.
func start(t testing.TB, loads []load, stacks ...string) *made {
	m := &made{t: t, rnd: rand.New(rand.NewPCG(2, 3)), log: measure.Log{
		End: &measure.End{Why: measure.EndTime, Detail: "the time is up"},
	}, run: measure.Run{
		V: measure.Version, Name: "made", Started: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		Design:   measure.Design{Precision: 0.02, Time: 40, Generations: 5, Seed: 7},
		Versions: map[string]string{"nettoll": "v0.1.0"},
		Facts:    map[string]any{"kernel": "6.12.9", "cpu": "Example 9000", "cpus": 2, "mtu": 1500},
	}}
	for _, l := range loads {
		where := fmt.Sprintf("/%s/%d/%s", l.placement, l.pairs, l.id)
		cell := func(stack, twin, baseline string) {
			network, filter, _ := strings.Cut(stack, "+")
			if name, _, _ := strings.Cut(filter, "("); !slices.Contains([]string{"iptables", "nftables", "ovs"}, name) {
				filter = ""
			}
			m.run.Cells = append(m.run.Cells, recorded(t, network, cmp.Or(filter, "none"), measure.Cell{
				ID: stack + where + twin, Baseline: baseline, Twin: twin != "",
				Group:     fmt.Sprintf("%s|%s|%d|ipv4|split", l.id, l.placement, l.pairs),
				Placement: l.placement, Pairs: l.pairs,
				Family: "ipv4", Affinity: "split", Workload: l.name, Params: l.params, Primary: l.primary,
				Implementation: map[string]string{"network": "kernel"},
			}))
		}
		cell(stacks[0], "", "")
		cell(stacks[0], "#2", stacks[0]+where)
		for _, s := range stacks[1:] {
			cell(s, "", stacks[0]+where)
		}
	}
	return m
}

// recorded is a cell in the form of records from before cells had parts: a key for each kind.
func recorded(t testing.TB, network, filter string, c measure.Cell) measure.Cell {
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = measure.WithParts(b, []measure.Part{
		{Kind: "network", ID: network},
		{Kind: "filter", ID: filter},
		{Kind: "tunnel", ID: "none"},
		{Kind: "encryption", ID: "none"},
		{Kind: "runtime", ID: "netns"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Noise of a trial, of a block and of a generation, as logarithms.
const (
	trialNoise      = 0.01
	blockNoise      = 0.05
	generationNoise = 0.003
)

// measure adds trials. change has the changes of metrics against the baseline's, by stack and metric: factors or, for
// loss and retransmits, summands.
func (m *made) measure(loads []load, generations, blocks int, change map[string]map[string]float64) {
	n := len(m.run.Cells) / len(loads)
	clock := 0.0
	for g := range generations {
		m.log.Generations = append(m.log.Generations, measure.Generation{Generation: g + 1, Blocks: blocks})
		cells := make([]float64, len(m.run.Cells))
		for i := range cells {
			cells[i] = generationNoise * m.rnd.NormFloat64()
		}
		for b := range blocks {
			block := blockNoise * m.rnd.NormFloat64()
			for i, c := range m.run.Cells {
				l := loads[i/n]
				stack, _, _ := strings.Cut(c.ID, "/")
				x := math.Exp(block + cells[i] + trialNoise*m.rnd.NormFloat64())
				t := measure.Trial{
					Generation: g + 1, Block: g*blocks + b, Cell: c.ID, Start: clock, Duration: 0.05,
					Metrics: maps.Clone(l.base),
				}
				clock += 0.051
				if _, counts := t.Metrics["packet_rate"]; counts {
					t.Limit = "sender"
					if stack == "bridge" && b%4 > 0 {
						t.Limit = "path"
					}
				}
				for k, v := range t.Metrics {
					d, changed := change[stack][k]
					switch {
					case k == "loss" || k == "retransmits":
						t.Metrics[k] = max(0, (v+d)*(1+0.2*m.rnd.NormFloat64()))
					case k == "goodput" || strings.Contains(k, "rate"):
						t.Metrics[k] = v / x
					default:
						t.Metrics[k] = v * x
					}
					if changed && k != "loss" && k != "retransmits" {
						t.Metrics[k] *= d
					}
				}
				m.log.Trials = append(m.log.Trials, t)
			}
		}
		for i, c := range m.run.Cells {
			l := loads[i/n]
			if l.base["latency_p50"] == 0 {
				continue
			}
			stack, _, _ := strings.Cut(c.ID, "/")
			factor := l.base["latency_p50"] * math.Exp(cells[i])
			if d := change[stack]["latency_p50"]; d != 0 {
				factor *= d
			}
			m.log.Histograms = append(m.log.Histograms,
				m.histogram(measure.Histograms{
					Generation: g + 1, First: g * blocks, Last: g*blocks + blocks - 1, Cell: c.ID,
				}, factor))
		}
	}
}

func (m *made) histogram(h measure.Histograms, seconds float64) measure.Histograms {
	hist := hdrhistogram.New(1, 10_000_000_000, 3)
	samples := 20_000
	if len(m.run.Cells) > 50 {
		samples = 2_000
	}
	for range samples {
		if err := hist.RecordValue(int64(1e9 * seconds * math.Exp(0.2*m.rnd.NormFloat64()))); err != nil {
			m.t.Fatal(err)
		}
	}
	data, err := measure.EncodeHistogram(hist)
	if err != nil {
		m.t.Fatal(err)
	}
	h.Data, h.Samples = data, hist.TotalCount()
	return h
}

// prove adds the proofs of every lab in the first generations, as many as given.
func (m *made) prove(generations int, when ...string) {
	for g := range generations {
		for _, w := range when {
			seen := map[string]bool{}
			for _, c := range m.run.Cells {
				lab := fmt.Sprintf("%s/%s/%d", c.Part("network"), c.Placement, c.Pairs)
				if c.Twin {
					lab += "#2"
				}
				if !seen[lab] {
					m.log.Proofs = append(m.log.Proofs, measure.Proof{
						Generation: g + 1, Lab: lab, Claim: "every pair passes packets of 1500 bytes both ways, unfragmented", When: w,
						OK: true,
					})
				}
				seen[lab] = true
			}
		}
	}
}

func (m *made) analysis() measure.Analysis { return measure.Analyze(m.run, &m.log) }

func (m *made) data() *report.Data {
	return &report.Data{Run: m.run, Log: &m.log, Analysis: m.analysis()}
}

// save writes a run directory.
func (m *made) save() string {
	dir := m.t.TempDir()
	var described bytes.Buffer
	if err := measure.WriteRun(&described, m.run); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), described.Bytes(), 0o666); err != nil {
		m.t.Fatal(err)
	}
	var b strings.Builder
	w := measure.NewWriter(&b)
	write := func(r measure.Record) {
		if err := w.Write(r); err != nil {
			m.t.Fatal(err)
		}
	}
	write(measure.Begin{Run: measure.RunSum(described.Bytes())})
	for i, x := range m.log.Trials {
		if i > 0 && x.Block != m.log.Trials[i-1].Block {
			if err := w.Sum(); err != nil {
				m.t.Fatal(err)
			}
		}
		write(x)
	}
	for _, x := range m.log.Histograms {
		write(x)
	}
	for _, x := range m.log.Proofs {
		write(x)
	}
	for _, x := range m.log.Warnings {
		write(x)
	}
	for _, x := range m.log.Facts {
		write(x)
	}
	for _, x := range m.log.Generations {
		write(x)
	}
	if m.log.End != nil {
		write(*m.log.End)
	}
	if err := w.Sum(); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "records.jsonl"), []byte(b.String()), 0o666); err != nil {
		m.t.Fatal(err)
	}
	return dir
}
