package view_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/markdown"
	"github.com/nettoll/nettoll/report/page"
	"github.com/nettoll/nettoll/report/text"
)

// Every view shows the cost of labs. That of a lab that was built once more has its own row and is not counted.
func TestLabs(t *testing.T) {
	m := start(t, []load{udprr("same-host", 1)}, "host", "ovs+ovs(rules=10)", "bridge")
	m.measure([]load{udprr("same-host", 1)}, 3, 4, nil)
	for g, x := range []float64{0.25, 0.5, 0.3} {
		tell := func(lab string, rebuilt bool, metrics map[string]float64) {
			m.log.Labs = append(m.log.Labs, measure.LabRecord{
				Generation: g + 1, Lab: lab + "/same-host/1", Rebuilt: rebuilt, Metrics: metrics,
			})
		}
		tell("host", false, map[string]float64{"setup_time": 0.02})
		m.log.Labs = append(m.log.Labs, measure.LabRecord{
			Generation: g + 1, Lab: "host/same-host/1#2", Metrics: map[string]float64{"setup_time": 0.03},
		})
		tell("ovs+ovs(rules=10)", false, map[string]float64{
			"setup_time": x, "rules_memory": 99_000 + 2000*float64(g), "rule_update_time": 0.001 * x,
			"rule_effect_time": 0.002 * x,
		})
		if g == 1 {
			tell("ovs+ovs(rules=10)", true, map[string]float64{
				"setup_time": 7, "rules_memory": 4096, "rule_update_time": 1, "rule_effect_time": 1,
			})
		}
	}
	for i, name := range []string{"snk0", "src0"} {
		m.log.Labs = append(m.log.Labs, measure.LabRecord{
			Lab: "bridge/same-host/1", Metrics: map[string]float64{},
			Containers: []measure.ContainerMetrics{{Host: "host1", Name: name, Metrics: map[string]float64{"setup_time": 0.04 + 0.01*float64(i)}}},
		})
	}
	for i := range 9 { // more than a table lists
		m.log.Labs = append(m.log.Labs, measure.LabRecord{
			Lab: "host/same-host/1", Metrics: map[string]float64{},
			Containers: []measure.ContainerMetrics{{
				Host: "host1", Name: fmt.Sprintf("src%d", i), Metrics: map[string]float64{"setup_time": 0.06},
			}},
		})
	}
	shown := func(write func(b *bytes.Buffer) error) string {
		t.Helper()
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	building := func(all bool) string {
		s := shown(func(b *bytes.Buffer) error { return text.Write(b, m.data(), report.Options{All: all}) })
		at := strings.Index(s, "Building and changing")
		if at < 0 {
			t.Fatalf("no figures of labs in\n%s", s)
		}
		s, _, _ = strings.Cut(s[at:], "\n\nMeasured")
		return s
	}
	golden(t, "labs.golden", building(false)+"\n\n"+building(true))
	csv := shown(func(b *bytes.Buffer) error { return export.CSV(b, m.data()) })
	if n := strings.Count(csv, "\novs+ovs(rules=10)/same-host/1,"); n != 4 ||
		!strings.Contains(csv, ",setup_time,s,0.3,") {
		t.Errorf("csv has %d rows of the lab, want 4, set-up in 0.3 s among them", n)
	}
	lines := shown(func(b *bytes.Buffer) error { return export.JSONL(b, m.data()) })
	if !strings.Contains(lines,
		`"metric":"setup_time","unit":"s","value":7,"least":7,"most":7,"generations":1,"rebuilt":true}`) ||
		strings.Count(lines, `"rebuilt"`) != 4 {
		t.Error("jsonl does not have the lab that was built once more")
	}
	if !strings.Contains(csv, ",setup_time,s,0.05,") || strings.Count(csv, ",host1/src") != 10 {
		t.Error("csv does not have the figures of each container")
	}
	if !strings.Contains(lines, `"lab":"bridge/same-host/1","container":"host1/src0","metric":"setup_time","unit":"s","value":0.05`) {
		t.Error("jsonl does not have the figures of a container")
	}
	for _, whole := range []string{
		shown(func(b *bytes.Buffer) error { return page.Write(b, m.data(), report.Options{}) }),
		shown(func(b *bytes.Buffer) error { return markdown.Write(b, m.data(), report.Options{}) }),
	} {
		if !strings.Contains(strings.ReplaceAll(whole, "<wbr/>", ""), "ovs+ovs(rules=10), rebuilt") {
			t.Error("a page does not have the lab that was built once more")
		}
	}
}
