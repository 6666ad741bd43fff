package suite

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// wired is an experiment whose links have a rate.
const wired = `{"underlay": {"rate": 1000000000}}`

// A claim about links of a rate is tried only in a run whose links are no faster.
func TestWire(t *testing.T) {
	want := map[string][]string{
		"docker-network":     {"nat-stream"},
		"felter2015":         {"stream", "line-rate"},
		"lezcano2007":        {"veth-stream-xeon"},
		"seconetbench-multi": {"saturate", "saturate-udp"},
	}
	got := map[string][]string{}
	for _, name := range Names() {
		s := find(t, name)
		for _, c := range s.Claims {
			if c.Wire > 0 {
				got[name] = append(got[name], c.ID)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims about links (-want +got):\n%s", diff)
	}
	for text, missing := range map[string]string{
		"":                                    "links of 1 Gbit/s (--set underlay.rate=1Gbit/s)",
		`{}`:                                  "links of 1 Gbit/s (--set underlay.rate=1Gbit/s)",
		wired:                                 "",
		`{"underlay": {"rate": 100000000}}`:   "",
		`{"underlay": {"rate": 10000000000}}`: "links of 1 Gbit/s (--set underlay.rate=1Gbit/s)",
	} {
		s := find(t, "lezcano2007")
		run := runOf(resolve(t, s))
		run.Experiment = json.RawMessage(text)
		for i, item := range s.Items(&run)[len(s.Drawings):] {
			if s.Claims[i].ID != "veth-stream-xeon" {
				continue
			}
			if tried := len(item.Cells) > 0; tried != (missing == "") || !tried && !cmp.Equal(item.Missing, []string{missing}) {
				t.Errorf("%s: cells %q, missing %q, want %q", text, item.Cells, item.Missing, missing)
			}
		}
		for _, c := range s.Evaluate(run, &measure.Log{}, measure.Analyze(run, &measure.Log{})).Claims {
			if c.ID == "veth-stream-xeon" && c.Tried() != (missing == "") {
				t.Errorf("%s: tried %v", text, c.Tried())
			}
		}
	}
}
