package measure

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRecordsRoundTrip(t *testing.T) {
	want := &Log{
		Version: Version,
		Begin:   &Begin{Type: "begin", V: 3, Run: RunSum(nil)},
		Generations: []Generation{{
			Type: "generation", V: 3, Generation: 2, Blocks: 4, Measured: 1.5, Deaths: map[string]int{"bridge": 1},
			Lost: map[string]string{"bridge": "its agent died"}, Dropped: map[string]string{"b": "proof failed"},
		}},
		Resumes: []Resume{{
			Type: "resume", V: 3, At: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), After: Killed,
			Generation: 3, Blocks: 2,
		}},
		End: &End{
			Type: "end", V: 3, Why: EndTime, Detail: "the time is up", Blocks: 8, Generations: 2, Trials: 24,
			Measured: 3, Resumed: 1,
		},
		Trials: []Trial{
			{
				Type: "trial", V: 3, Generation: 1, Block: 7, Cell: "bridge/same-host/1/udp-rr(payload=28,mode=wait)", Start: 12.5,
				Duration: 0.05,
				Metrics: map[string]float64{
					"latency_p50": 1.23457e-5, "goodput": 3.4e10, "loss": 0,
				}, PerPair: map[string][]float64{"goodput": {1.5e10, 1.9e10}},
				Warnings: []string{"the machine was stolen from: \"3 ms\"\n\u2028"},
			},
			{Type: "trial", V: 3, Cell: "b", Metrics: map[string]float64{}, Limit: "sink", Failed: "sink went away"},
		},
		Histograms: []Histograms{
			{
				Type: "histogram", V: 3, Generation: 2, First: 3, Last: 6, Cell: "b", Metric: "oneway_latency",
				Samples: 12345678901, Data: "HISTFAAA+/=",
			},
		},
		Blocks: []BlockFacts{
			{
				Type: "block", V: 3, Block: 2, Start: 1, Duration: 2, CPU: map[string]float64{"user": 0.25, "steal": 0},
				Load1: 1.5,
			},
			{
				Type: "block", V: 3, Generation: 1, Block: 3, CPU: map[string]float64{}, Others: 0.5, Memory: 2e9, Softirqs: 8,
				Machines: []MachineLoad{{Machine: "b", CPU: map[string]float64{"user": 1}, Load1: 2, Others: 0.25, Memory: 1e9, Softirqs: 7}},
			},
		},
		Proofs: []Proof{{
			Type: "proof", V: 3, Generation: 1, Lab: "bridge", Name: "refuses", Claim: "others do not pass", When: "before",
			Tried: map[string]int{"ipv4": 2}, Expected: "no answer", Seen: map[string]int{"ipv4": 1},
			Detail: "one was answered",
		}},
		Labs: []LabRecord{{
			Type: "lab", V: 3, Generation: 1, Lab: "bridge+nftables/same-host/1",
			Metrics: map[string]float64{"setup_time": 0.5}, Implementations: map[string]string{"network": "kernel"},
		}},
		Warnings: []Warning{{Type: "warning", V: 3, Cell: "b", Text: "loss"}},
		Facts:    []Fact{{Type: "fact", V: 3, Key: "mtu", Value: 1500.0}},
	}
	filled(t, want.Trials)
	filled(t, want.Histograms)
	filled(t, want.Blocks)
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, r := range []Record{
		*want.Begin, want.Trials[0], want.Trials[1], want.Histograms[0], want.Blocks[0], want.Blocks[1],
		want.Proofs[0], want.Labs[0], want.Warnings[0], want.Facts[0], want.Generations[0], want.Resumes[0], *want.End,
	} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sum(); err != nil {
		t.Fatal(err)
	}
	got, problems, err := Read(&b)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(Log{}, "Place")); d != "" {
		t.Error(d)
	}
}

// filled wants every field set in one of the records, so that none is forgotten where records are written field by field.
func filled[T any](t *testing.T, records []T) {
	t.Helper()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if field.IsExported() && !slices.ContainsFunc(records, func(r T) bool {
			return !reflect.ValueOf(r).FieldByIndex(field.Index).IsZero()
		}) {
			t.Errorf("no %s has a %s: this does not show that it is written", reflect.TypeFor[T]().Name(), field.Name)
		}
	}
}

func TestWriterSaysWhatItLeavesOut(t *testing.T) {
	var b bytes.Buffer
	err := NewWriter(&b).Write(Trial{
		Cell: "a", Start: math.NaN(), Metrics: map[string]float64{"loss": math.NaN(), "goodput": 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"trial","v":3,"gen":0,"block":0,"cell":"a","dur":0,"metrics":{"goodput":1},"warn":["metric \"loss\" was not a finite number and is left out"]}` + "\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
	if err := NewWriter(&b).Write(BlockFacts{CPU: map[string]float64{"user": math.Inf(1)}}); err == nil {
		t.Error("a block with infinite CPU was written")
	}
}

type brokenDisk struct{}

func (brokenDisk) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (brokenDisk) Read([]byte) (int, error)  { return 0, errors.ErrUnsupported }

func TestErrorsOfFilesArePassedOn(t *testing.T) {
	if err := NewWriter(brokenDisk{}).Write(Fact{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if log, _, err := Read(brokenDisk{}); !errors.Is(err, errors.ErrUnsupported) || log == nil {
		t.Error(log, err)
	}
}

func TestRead(t *testing.T) {
	good := func(block int) string {
		return fmt.Sprintf(`{"type":"trial","v":1,"block":%d,"cell":"a","metrics":{}}`, block)
	}
	tests := []struct {
		name, file string
		blocks     []int
		problems   []string // line: beginning of the text
	}{
		{"empty", "", nil, nil},
		{"no last newline", good(1) + "\n" + good(2), []int{1, 2}, nil},
		{"empty lines and CRLF", "\n" + good(1) + "\r\n\n", []int{1}, nil},
		{"torn end", good(1) + "\n" + good(2)[:20], []int{1}, []string{"line 2: no record: unexpected end"}},
		{
			"torn, then resumed on the same line", good(1)[:20] + good(2) + "\n" + good(3),
			[]int{2, 3},
			[]string{"line 1: no record: unexpected end of JSON input; the record after it was recovered"},
		},
		{"binary between", good(1) + "\n\x00\xff\x1f\x8b\n" + good(2), []int{1, 2}, []string{"line 2: no record: invalid"}},
		{"another's JSON", `{"hello":1}` + "\n[1]\n3\nnull\n" + good(1), []int{1}, []string{
			`line 1: no record: field "type"`, "line 2: no record: json", "line 3: no record: json",
			`line 4: no record: field "type"`,
		}},
		{"unknown type", `{"type":"song","v":1}`, nil, []string{`line 1: unknown record type "song" (known: begin, trial,`}},
		{"newer version", `{"type":"trial","v":4,"cell":"a"}` + "\n" + good(1), []int{1}, []string{
			`line 1: record "trial" has version 4, this nettoll knows 3`,
		}},
		{
			"one of version 2 among others", good(1) + "\n" + `{"type":"fact","v":2}` + "\n" + `{"type":"song","v":2}` + "\n" +
				good(2), []int{1, 2}, []string{`line 3: unknown record type "song"`},
		},
		{"no version", `{"type":"trial","cell":"a"}`, nil, []string{`line 1: record "trial" has no version`}},
		{"no cell", `{"type":"trial","v":1}`, nil, []string{`line 1: no record: field "cell" is missing`}},
		{"wrong kind of field", `{"type":"trial","v":1,"cell":7}`, nil, []string{"line 1: no record: json"}},
		{"unknown field", `{"future":{"x":[1]},"type":"trial","v":1,"block":4,"cell":"a"}`, []int{4}, nil},
		{
			"too long", good(1) + "\n" + strings.Repeat("x", maxLine+1) + "\n" + good(2),
			[]int{1, 2},
			[]string{"line 2: longer than 16777216 bytes"},
		},
		{"too long at the end", good(1) + "\n" + strings.Repeat("x", maxLine+5), []int{1}, []string{"line 2: longer than"}},
		{"long but not too long", `{"type":"trial","v":1,"block":9,"cell":"a","failed":"` + strings.Repeat("x", 1<<20) +
			`"}` + "\n" + good(2), []int{9, 2}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, problems, err := Read(strings.NewReader(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			var blocks []int
			for _, x := range log.Trials {
				blocks = append(blocks, x.Block)
			}
			if d := cmp.Diff(tt.blocks, blocks); d != "" {
				t.Error(d)
			}
			for i, p := range problems {
				if i >= len(tt.problems) || !strings.HasPrefix(p.String(), tt.problems[i]) {
					t.Errorf("problem %q is not among %q", p, tt.problems)
				}
			}
			if len(problems) < len(tt.problems) {
				t.Errorf("problems are %q, want %q", problems, tt.problems)
			}
		})
	}
}

// FuzzRead: any input gives an error or a value. Intact lines before and after garbage are recovered, or, if a checksum
// line makes the file one in which lines without one are not used, a problem says that they are not. The records that
// were read can be analyzed.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "\n", "{", `{"type":"trial","v":1,"gen":9223372036854775807,"cell":"a","metrics":{"goodput":-1,"latency_p50":0,"x":1e308}}`,
		`{"type":"histogram","v":1,"cell":"a","samples":3,"data":"HISTFAAAABl42pNpmSzMwMDAxAABzFCaEUzOZ8ABAKXTAhE="}`,
		`{"type":"fact","v":1,"value":{"a":[null]}}`, "\x00\xff\r\n", `{"type":"trial","v":1,"ce`,
		`{"type":"block","v":1,"cpu":null}` + "\n" + `{"type":"proof"}`,
		`{"type":"sum","v":2,"lines":1,"sum":"00"}`, `{"type":"sum",`,
	} {
		f.Add([]byte(s))
	}
	run := Run{Cells: []Cell{{ID: "base", Group: "g"}, {ID: "a", Baseline: "base", Group: "g", Primary: "goodput"}}}
	f.Fuzz(func(t *testing.T, garbage []byte) {
		before := `{"type":"trial","v":1,"block":111,"cell":"first","metrics":{"goodput":1}}`
		after := `{"type":"trial","v":1,"block":222,"cell":"last","metrics":{"goodput":2}}`
		file := before + "\n" + string(garbage) + "\n" + after
		log, problems, err := Read(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		n := len(log.Trials)
		lost := n < 2 || log.Trials[0].Block != 111 || log.Trials[n-1].Block != 222
		if bytes.HasPrefix(garbage, []byte(sumHead)) || bytes.Contains(garbage, []byte("\n"+sumHead)) {
			if lost && !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.Text, "not used") }) {
				t.Fatalf("an intact line was lost: %v, and no problem says so: %v", log.Trials, problems)
			}
			Analyze(run, log)
			return
		}
		if lost {
			t.Fatalf("an intact line was lost: %v", log.Trials)
		}
		lines := strings.Count(file, "\n") + 1
		for _, p := range problems {
			if p.Line < 2 || p.Line > lines-1 {
				t.Fatalf("a problem in an intact line: %v", p)
			}
		}
		Analyze(run, log)
	})
}

// TestSize holds 100,000 single-pair trials, with their histograms and blocks, below 50 MB; those on a schedule, which
// have the most metrics, below 60 MB.
func TestSize(t *testing.T) {
	for _, tt := range []struct {
		load    string
		metrics map[string]float64 // besides those of all trials
		others  int                // histograms in each generation
		limit   float64
	}{
		{"udp-rr(payload=1024,mode=wait)", nil, 0, 50},
		{"udp-rr(payload=1024,mode=wait,rate=10000/s,arrivals=poisson)", map[string]float64{"backlog": 123}, 2, 60},
	} {
		var b bytes.Buffer
		w := NewWriter(&b)
		longest := 0
		write := func(r Record) {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		const cells, group, generation = 10, 32, 64 // blocks
		for i := range cells * generation {
			trial, start := exampleTrial(i), b.Len()
			trial.Cell = strings.Replace(trial.Cell, "udp-rr(payload=1024,mode=wait)", tt.load, 1)
			for name, value := range tt.metrics {
				trial.Metrics[name] = value * (1 + math.Sin(float64(i))/10)
			}
			write(trial)
			longest = max(longest, b.Len()-start)
			block := i / cells
			if i%cells == 0 {
				write(BlockFacts{
					Block: block, Start: float64(i) * 0.123456789, Duration: 0.987654321, Load1: 1.23,
					CPU: map[string]float64{
						"user": 0.123456789, "nice": 0, "system": 0.9876543, "idle": 0.7, "iowait": 0.001, "irq": 0, "softirq": 0.2,
						"steal": 0.01,
					},
				})
			}
			if block%group == 0 {
				write(Histograms{Cell: trial.Cell, Samples: 40_000, Data: latencies(t, uint64(i), 4000, 1)})
			}
			if i%cells == cells-1 {
				if err := w.Sum(); err != nil {
					t.Fatal(err)
				}
			}
			if block == 0 {
				for range tt.others {
					write(Histograms{
						Cell: trial.Cell, Metric: "departure_error", Samples: 80_000,
						Data: latencies(t, uint64(i), 8000, 1),
					})
				}
			}
		}
		mb := float64(b.Len()) / (cells * generation) * 100_000 / 1e6
		t.Logf("%s: %.1f MB for 100,000 trials, the longest line of a trial has %d bytes", tt.load, mb, longest)
		if mb > tt.limit || float64(longest) > 10*tt.limit {
			t.Errorf("%s: %.1f MB for 100,000 trials, want at most %v; the longest line of a trial has %d bytes", tt.load, mb,
				tt.limit, longest)
		}
	}
}

// exampleTrial returns a trial of a request/response workload with all the metrics of its records.
func exampleTrial(i int) Trial {
	x := 1 + math.Sin(float64(i))/10
	return Trial{
		Generation: i / 200, Block: i / 10,
		Cell:  fmt.Sprintf("bridge+nftables(rules=%d)/cross-host/1/udp-rr(payload=1024,mode=wait)", i%10),
		Start: float64(i) * 0.0512345678, Duration: 0.05,
		Metrics: map[string]float64{
			"transaction_rate": 81234.5678 * x, "loss": 0, "latency_mean": 12.3456789e-6 * x, "latency_p50": 11.987654e-6 * x,
			"cpu_busy": 1.23456789 * x, "cpu_source": 0.61234567 * x, "cpu_sink": 0.60987654 * x, "cpu_user": 0.123456789 * x,
			"cpu_softirqd":   0.000123456789 * x,
			"cpu_per_packet": 7.654321e-6 * x, "dead_time": 70.123456e-6 * x, "drain_time": 180.123456e-6 * x,
		},
	}
}

func TestRunRoundTrip(t *testing.T) {
	want := Run{
		V: 3, Name: "n", Started: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Design: Design{
			Precision: 0.02, Time: 40, Generations: 5, Seed: 1<<63 + 1,
		},
		Cells: []Cell{{ID: "host/…", Group: "g", Pairs: 1, Params: map[string]string{"payload": "28"}}},
		Facts: map[string]any{"mtu": 1500.0},
	}
	var b bytes.Buffer
	if err := WriteRun(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRun(&b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if _, err := ReadRun(strings.NewReader(`{"v":4}`)); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	if _, err := ReadRun(strings.NewReader(`{"v":`)); err == nil {
		t.Error("half a run.json was read")
	}
}
