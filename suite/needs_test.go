package suite

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// Every figure, table and claim of every paper has cells in its experiment, and the drawing of a figure has all of its
// published values.
func TestItems(t *testing.T) {
	number := regexp.MustCompile(`, (?:scenario \d, )?figure (\d+)$`)
	for _, name := range Names() {
		s := find(t, name)
		run := runOf(resolve(t, s))
		items := s.Items(&run)
		if len(items) != len(s.Drawings)+len(s.Claims) || len(s.Drawings) == 0 {
			t.Errorf("%s: %d items of %d drawings and %d claims", name, len(items), len(s.Drawings), len(s.Claims))
		}
		for _, i := range items {
			untried := slices.ContainsFunc(s.Claims, func(c Claim) bool { return slices.Equal(i.Missing, []string{c.Untried}) })
			if len(i.Cells) == 0 && i.Missing == nil || !untried && !s.explained(i.Missing) {
				t.Errorf("%s, %s %s: cells %q, missing %q", name, i.Kind, i.Name, i.Cells, i.Missing)
			}
		}
		for _, f := range s.Figures {
			found := number.FindStringSubmatch(f.Source)
			if found == nil {
				continue
			}
			i := slices.IndexFunc(s.Drawings, func(d Drawing) bool { return d.Figure == found[1] })
			if i < 0 || !slices.ContainsFunc(s.Drawings[i].points(s), f.At.equal) {
				t.Errorf("%s: %v is not in figure %s", name, f.At, found[1])
			}
		}
	}
}

// Pick finds items by number or name. The error about an unknown one lists the known ones.
func TestPick(t *testing.T) {
	pick := func(suite string, c Choice) ([]string, error) {
		s := find(t, suite)
		run := runOf(resolve(t, s))
		found, err := s.Pick(s.Items(&run), c)
		var list []string
		for _, i := range found {
			list = append(list, i.Kind+" "+i.Name)
		}
		return list, err
	}
	for _, tt := range []struct {
		suite string
		c     Choice
		want  []string
	}{
		{"ji2019", Choice{Figures: []string{"4"}, Claims: []string{"7", "gap-rate"}}, []string{"figure 4", "claim 7", "claim 4"}},
		{"seconetbench-single", Choice{Figures: []string{"4"}}, []string{"figure 4a", "figure 4b"}},
		{"seconetbench-single", Choice{Figures: []string{"4b"}}, []string{"figure 4b"}},
		{"alibaba-eni", Choice{Tables: []string{"store"}}, []string{"table store"}},
	} {
		if got, err := pick(tt.suite, tt.c); err != nil || cmp.Diff(tt.want, got) != "" {
			t.Errorf("%s, %v: %q, %v", tt.suite, tt.c, got, err)
		}
	}
	for want, c := range map[string]Choice{
		`unknown figure "1" (known: 4 to 11)`:           {Figures: []string{"1"}},
		`unknown table "1": suite ji2019 has no tables`: {Tables: []string{"1"}},
		`unknown claim "0" (known: 1 to 20)`:            {Claims: []string{"0"}},
		`unknown claim "macvlan" (known: 1 to 20)`:      {Claims: []string{"macvlan"}},
		`unknown figure "" (known: 4 to 11)`:            {Figures: []string{""}},
	} {
		if _, err := pick("ji2019", c); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", c, err, want)
		} else if _, ok := errors.AsType[*UnknownItemError](err); !ok {
			t.Errorf("%v: %T", c, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	for want, list := range map[string][]string{
		"": nil, "3": {"3"}, "1, 2": {"1", "2"}, "1 to 3, 5, 7, 8": {"1", "2", "3", "5", "7", "8"},
		"4a, 4b, 5 to 7": {"4a", "4b", "5", "6", "7"},
	} {
		if got := Numbers(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

// Claims are chosen by the time that they add; unlikely ones come last; at least one is chosen.
func TestWithin(t *testing.T) {
	claims := []Item{
		{Name: "1", Cells: []string{"a", "b", "c", "d"}},
		{Name: "2", Cells: []string{"a", "b"}},
		{Name: "3", Cells: []string{"e"}, Unlikely: true},
		{Name: "4", Cells: []string{"b", "f"}},
		{Name: "5"},
	}
	for limit, want := range map[int][]string{
		1: {"2"}, 2: {"2"}, 3: {"2", "4"}, 4: {"2", "4", "3"}, 5: {"2", "4", "1"}, 6: {"2", "4", "1", "3"},
	} {
		var got []string
		for _, i := range Within(claims, func(cells []string) bool { return len(cells) <= limit },
			func(cells []string) float64 { return float64(len(cells)) }) {
			got = append(got, i.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d cells (-want +got):\n%s", limit, diff)
		}
	}
}

// A figure is redrawn in the paper's layout, with the published bars and those measured here.
func TestPlot(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	r := evaluate(s, run, world(run, 10, 3, 0.0005, s.as(&run)))
	var plots []*report.Plot
	for _, x := range r.Sections() {
		for _, b := range x.Blocks {
			if b.Plot != nil {
				plots = append(plots, b.Plot)
				if !x.Detail {
					t.Errorf("%s is shown where all of the paper was measured", x.Title)
				}
			}
		}
	}
	if len(plots) != 8 {
		t.Fatalf("%d figures", len(plots))
	}
	p := plots[0].Panels[0]
	if cmp.Diff([]string{"1 pair", "10 pairs"}, p.Groups)+cmp.Diff([]string{"none", "bridge", "macvlan"}, p.Series) != "" ||
		p.Better != measure.HigherBetter || p.Unit != measure.UnitTransaction {
		t.Errorf("%+v", p)
	}
	for g, want := range [][]float64{{78308, 64698, 96692}, {37375, 31186, 42462}} {
		for i, x := range want {
			there, here := p.Published[g][i].Value, p.Here[g][i]
			if there != x || here.Value < 0.9*x || here.Value > 1.1*x || here.Lo > here.Value || here.Hi < here.Value {
				t.Errorf("%s, %s: published %v, here %+v, want %v", p.Groups[g], p.Series[i], there, here, x)
			}
		}
	}
	// If only a part of a paper was asked for, the report shows that part, and says only that the rest was not tried.
	run.Experiment = []byte(`{"only":["x"]}`)
	run.Cells = slices.DeleteFunc(run.Cells, func(c measure.Cell) bool {
		return c.Placement != "same-host" || c.Params["payload"] != "1024" || c.Workload != "udp-rr"
	})
	r = evaluate(s, run, world(run, 10, 3, 0.0005, s.as(&run)))
	var titles []string
	for _, x := range r.Sections() {
		if !x.Detail {
			titles = append(titles, x.Title)
		}
		for _, b := range x.Blocks {
			if b.Table == nil {
				continue
			}
			for _, row := range b.Table.Rows {
				for _, f := range row {
					if strings.Contains(f.Text, "cannot be told") || strings.Contains(f.Text, "28 bytes") && x.Title == "Published and here" {
						t.Errorf("%s: %v", x.Title, row)
					}
				}
			}
		}
	}
	want := []string{
		"The paper's claims", "Figure 4 of the paper: Packets per second, large packets, one host",
		"Figure 8 of the paper: Latency, large packets, one host", "Published and here", "What differs from the paper",
	}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	if text := r.summary(); !strings.Contains(text, " Not tried: 1, 5 to 8, 12 to 17, 20. ") {
		t.Error(text)
	}
}

// explained reports whether all that is missing belongs to stacks that cannot be measured, for a reason that the suite
// gives.
func (s *Suite) explained(missing []string) bool {
	return !slices.ContainsFunc(missing, func(where string) bool {
		name, _, _ := strings.Cut(where, ",")
		return s.stack(name).Missing == ""
	})
}

// A ratio has no digits beyond its uncertainty.
func TestRatio(t *testing.T) {
	for _, c := range []struct {
		ratio, lo, hi   float64
		point, interval string
	}{
		{1.2, 1.1, 1.3, "1.20", "1.10 to 1.30"},
		{1.2, 1.195, 1.205, "1.200", "1.195 to 1.205"},
		{0.68, 0.004, 801234, "0.68", "0.004 to >1000"},
		{2000, 1e-9, math.Inf(1), ">1000", "<0.001 to >1000"},
	} {
		point, interval := ratio(&measure.Combined{Estimate: measure.Estimate{Ratio: c.ratio, Lo: c.lo, Hi: c.hi}})
		if point != c.point || interval != c.interval {
			t.Errorf("%v: %q and %q, want %q and %q", c.ratio, point, interval, c.point, c.interval)
		}
	}
}
