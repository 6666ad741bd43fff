package view_test

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
)

// Two figures of the same name are equal, whether they stand in a table, a figure or an export. A change never
// contradicts the values next to it. This holds for recorded runs and all made ones.
func TestFiguresOfOneNameAreAlike(t *testing.T) {
	data := map[string]*report.Data{}
	for name, made := range runs() {
		data[name] = made(t).data()
	}
	for _, dir := range []string{"v1-whole", "v1-killed", "v1-wide", "v2-interrupted"} {
		d, _, err := report.Load(filepath.Join("testdata", dir))
		if err != nil {
			t.Fatal(err)
		}
		data[dir] = d
	}
	fits, drawn := 0, 0
	for name, d := range data {
		t.Run(name, func(t *testing.T) {
			fits += changesFit(t, d)
			drawn += figuresFit(t, d)
		})
	}
	if fits < 100 || drawn < 10 {
		t.Errorf("only %d changes and %d figures were looked at", fits, drawn)
	}
}

// changesFit checks an export: the value of a row is its baseline's times its ratio.
func changesFit(t *testing.T, d *report.Data) int {
	t.Helper()
	var b bytes.Buffer
	if err := export.CSV(&b, d); err != nil {
		t.Fatal(err)
	}
	twins, values := map[string]bool{}, map[string]float64{}
	for _, c := range d.Run.Cells {
		twins[c.ID] = c.Twin
	}
	rows := table(t, b.Bytes())
	for _, row := range rows {
		if row["over"] == "" && row["baseline"] == "" {
			values[row["cell"]+row["metric"]] = number(t, row["value"])
		}
	}
	n := 0
	for _, row := range rows {
		base, ok := values[row["baseline"]+row["metric"]]
		if ratio := number(t, row["ratio"]); ok && !math.IsNaN(ratio) && base > 0 && !twins[row["cell"]] {
			if x := number(t, row["value"]) / base; math.Abs(x/ratio-1) > 1e-9 {
				t.Errorf("%s %s: the values say ×%v, the ratio ×%v", row["cell"], row["metric"], x, ratio)
			}
			n++
		}
	}
	return n
}

// figuresFit checks the page: the description of a figure has the same text about a stack as its table.
func figuresFit(t *testing.T, d *report.Data) int {
	t.Helper()
	page := said(t, "html", d)
	n := 0
	for _, g := range d.Read().Groups {
		for _, c := range g.Cells {
			r := g.Row(c, g.Primary.Name)
			if r == nil || math.IsNaN(r.Value) || r.Verdict == measure.HasFailed {
				continue
			}
			value := report.Number(r.Value, r.Unit)
			drawn := regexp.MustCompile(regexp.QuoteMeta(escapedName(c))+`: ([^;<]*); half of the trials lie`).
				FindAllStringSubmatch(page, -1)
			found := false
			for _, one := range drawn {
				found = found || plainSpace(one[1]) == value
			}
			if len(drawn) > 0 && !found {
				t.Errorf("%s: the table says %s, the figure %s", c.ID, value, drawn)
			}
			if len(drawn) > 0 {
				n++
			}
			row := fmt.Sprintf(`data-l="%s">%s<`, report.Label(g.Primary), value)
			if !strings.Contains(plainSpace(page), row) {
				t.Errorf("%s: the page has no %q", c.ID, row)
			}
		}
	}
	return n
}

func escapedName(c *measure.Cell) string {
	return strings.ReplaceAll(report.StackName(c), "&", "&amp;")
}

func plainSpace(s string) string { return strings.ReplaceAll(s, "\u00a0", " ") }
