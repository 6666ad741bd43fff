package measure

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func hops() Metric {
	return Metric{
		Name: "hops", Unit: "hop", Better: LowerBetter, Kind: KindCount, Label: "way",
		Summary: "routers on the way", Order: 15,
	}
}

func TestNewVocabulary(t *testing.T) {
	other := hops()
	other.Better = HigherBetter
	incomplete := hops()
	incomplete.Unit = ""
	for _, tt := range []struct {
		name     string
		declared []Metric
		want     string // of the error; "" for none
	}{
		{"several parts with one meaning", []Metric{hops(), hops()}, ""},
		{"one name with two meanings", []Metric{hops(), other}, `metric "hops" has two meanings`},
		{"no unit", []Metric{incomplete}, `metric "hops": the declaration is incomplete`},
	} {
		v, err := NewVocabulary(tt.declared...)
		if tt.want == "" {
			if diff := cmp.Diff([]Metric{hops()}, v.All()); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A run carries the descriptions of its metrics, so that a nettoll without the part can also show them.
func TestRunCarriesMetrics(t *testing.T) {
	var text bytes.Buffer
	goodput, _ := Version2().Lookup("goodput")
	if err := WriteRun(&text, Run{
		Name: "n", Metrics: []Metric{goodput, hops()}, Cells: []Cell{{ID: "a", Primary: "goodput"}},
	}); err != nil {
		t.Fatal(err)
	}
	run, err := ReadRun(&text)
	if err != nil {
		t.Fatal(err)
	}
	log := &Log{}
	for block := range 3 {
		log.Trials = append(log.Trials, Trial{
			Cell: "a", Block: block, Metrics: map[string]float64{"goodput": 1, "hops": 3, "of_tomorrow": 1},
		})
	}
	var got []Metric
	for _, r := range Analyze(run, log).Rows {
		got = append(got, r.About)
	}
	want := []Metric{goodput, hops(), {Name: "of_tomorrow", Better: Neither, Kind: KindUnknown}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics of the rows (-want +got):\n%s", diff)
	}
	run.Metrics = nil
	if m, known := run.Vocabulary().Lookup("hops"); known {
		t.Errorf("a run without declarations knows %+v", m)
	}
}

// Runs of older versions, which did not record Tool, are read as if they had.
func TestOwnMetricsOfOldRuns(t *testing.T) {
	dead, _ := Version2().Lookup("dead_time")
	if !dead.Tool || dead.Compares() {
		t.Fatalf("%+v is not nettoll's own", dead)
	}
	dead.Tool = false
	run := Run{Metrics: []Metric{hops(), dead}}
	if got, _ := run.Vocabulary().Lookup("dead_time"); !got.Tool {
		t.Errorf("%+v of an old run is not nettoll's own", got)
	}
	if got, _ := run.Vocabulary().Lookup("hops"); got.Tool || run.Metrics[1].Tool {
		t.Errorf("%+v is nettoll's own, or the run was changed: %+v", got, run.Metrics)
	}
}

// Labs of older runs, which recorded no notes, are explained as they were; newer runs say themselves what is to be said.
func TestNotesOfOldRuns(t *testing.T) {
	plug, _ := Version2().Lookup("plug_time")
	for _, run := range []Run{{}, {Metrics: []Metric{plug}}} {
		if got, _ := run.Vocabulary().Lookup("plug_time"); !strings.Contains(got.Note, "“plug in”") {
			t.Errorf("%+v of an old run has no note", got)
		}
	}
	noted := hops()
	noted.Note = "A hop is a router."
	newer := Run{Metrics: []Metric{noted, plug}}
	if got, _ := newer.Vocabulary().Lookup("plug_time"); got.Note != "" {
		t.Errorf("%+v of a run with notes", got)
	}
	if got, _ := newer.Vocabulary().Lookup("hops"); got.Note != noted.Note {
		t.Errorf("%+v of a run with notes", got)
	}
}
