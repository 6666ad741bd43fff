package view_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// Views say what root may do in the containers of a stack, what that refused to send, and what could not be tried, once. Of a stack whose containers
// have no processes of their own they say nothing.
func TestRights(t *testing.T) {
	m := start(t, []load{udprr("same-host", 1)}, "host", "bridge")
	m.measure([]load{udprr("same-host", 1)}, 3, 4, nil)
	for i := range m.run.Cells {
		m.run.Cells[i].Lab = m.run.Cells[i].Part("network") + "/same-host/1"
	}
	for g := range 3 {
		m.log.Labs = append(m.log.Labs,
			measure.LabRecord{Generation: g + 1, Lab: "host/same-host/1", Metrics: map[string]float64{"setup_time": 1}},
			measure.LabRecord{
				Generation: g + 1, Lab: "bridge/same-host/1", Metrics: map[string]float64{"setup_time": 1},
				Rights: []measure.Rights{{Effective: "0", Bounding: "0", NoNewPrivileges: true}},
			},
		)
		m.log.Matrices = append(m.log.Matrices, measure.Matrix{
			Generation: g + 1, Lab: "bridge/same-host/1", When: "before", From: []string{"src0"}, To: []string{"snk0"},
			Cells: map[string][]string{"ipv4": {"x"}}, Tried: map[string]int{"ipv4": 9}, Of: map[string]int{"ipv4": 9},
			Unsent: map[string]int{"ipv4": 4}, UnsentKinds: []string{"TCP SYN"}, Untried: []string{"hosts (nobody hears there)"},
		}, measure.Matrix{
			Generation: g + 1, Lab: "cni/same-host/1", When: "before", Untried: []string{"hosts (nobody hears there)"},
		})
	}
	const rights = "no capabilities, no seccomp, no new privileges"
	for format, wants := range map[string][]string{
		"text": {
			"Root in containers of bridge/same-host/1 has " + rights + ".",
			"bridge/same-host/1: rights of the containers refused to send 12 packets: TCP SYN.",
			"bridge/same-host/1, cni/same-host/1: not tried: hosts (nobody hears there).",
		},
		"markdown": {"| stack | network | runtime | implementation | root in containers |", "| kernel | " + rights + " |"},
		"html":     {"root in containers", rights},
		"jsonl":    {`"cell":"bridge/`, `"rights":"` + rights + `"`, `"unsent":12,"unsent_kinds":["TCP SYN"]`, `"not_tried":["hosts (nobody hears there)"]`},
		"csv":      {",rights,container\n", `,"` + rights + `",` + "\n"},
	} {
		var b bytes.Buffer
		if err := view.Write(&b, format, m.data(), report.Options{Width: 200}); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s does not say %q:\n%.4000s", format, want, &b)
			}
		}
		if format == "csv" {
			for line := range strings.Lines(b.String()) {
				if got := strings.Contains(line, rights); got != strings.HasPrefix(line, `"bridge/same-host/1/`) &&
					!strings.HasPrefix(line, "cell,") && !strings.HasPrefix(line, "bridge/") {
					t.Errorf("csv: %s", line)
				}
			}
		}
	}
}
