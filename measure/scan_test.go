package measure

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func lines(tb testing.TB) [][]byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, t := range []Trial{
		{
			Generation: 3, Block: 17, Cell: "bridge/same-host/1/udp-rr(payload=64)", Start: 1.25, Duration: 0.05,
			Metrics: map[string]float64{"latency_p50": 1.2e-5, "loss": 0, "x": -3},
		},
		{Cell: "a", Metrics: map[string]float64{}, PerPair: map[string][]float64{"goodput": {1, 2.5, 3e9}, "none": {}}},
		{Cell: "a", Warnings: []string{"a doubt", "another"}, Failed: "no answer"},
		{Cell: "a", Warnings: []string{"slow: 3 µs"}, Failed: `it said "no"`},
	} {
		if err := w.Write(t); err != nil {
			tb.Fatal(err)
		}
	}
	return bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n"))
}

// The scanner reads every line that Writer writes, unless it has escapes.
func TestScan(t *testing.T) {
	var s scanner
	for i, line := range lines(t) {
		got, ok := s.trial(line)
		if want := i < 3; ok != want {
			t.Errorf("line %d: %v, want %v: %s", i, ok, want, line)
		}
		agree(t, line, got, ok)
	}
}

// agree checks that the scanner and encoding/json return the same trial.
func agree(t *testing.T, line []byte, got Trial, ok bool) {
	t.Helper()
	if !ok {
		return
	}
	var want Trial
	if err := json.Unmarshal(line, &want); err != nil {
		t.Fatalf("the scanner takes what is no JSON (%v): %s", err, line)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s:\n%s", line, d)
	}
}

func FuzzScan(f *testing.F) {
	for _, line := range lines(f) {
		f.Add(line)
		f.Add(bytes.Replace(line, []byte(`:0,`), []byte(`:-0,`), 1))
	}
	for _, end := range []string{
		`01`, `1.`, `.5`, `+1`, `1e`, `1e999`, `-`, `0x1`, `1_0`, `inf`, `1,`, `1}}`, `""`, `null`,
	} {
		f.Add([]byte(`{"type":"trial","v":1,"gen":0,"block":0,"cell":"a","start":0,"dur":0,"metrics":{"m":` + end + `}}`))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var s scanner
		got, ok := s.trial(line)
		agree(t, line, got, ok)
		if again, ok2 := s.trial(line); ok2 != ok || ok && cmp.Diff(got, again) != "" {
			t.Errorf("the second time it reads otherwise: %s", line)
		}
	})
}
