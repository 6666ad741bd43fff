package view_test

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/chart"
	"github.com/nettoll/nettoll/report/figure"
	"github.com/nettoll/nettoll/report/page"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
)

// The page and the figures of a run replace links in their places, and are not written through them.
func TestFollowsNoLinks(t *testing.T) {
	d, dir, outside := usual(t).data(), t.TempDir(), filepath.Join(t.TempDir(), "outside")
	figures := []string{"overview-lower.svg", "overview-higher.svg"}
	for _, name := range append(figures, view.PageFile) {
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := view.Figures(dir, d, view.Pictures{Only: []string{"overview"}, Formats: []string{"svg"}})
	if err := errors.Join(err, view.WritePage(dir, d, report.Options{})); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(figures, view.PageFile) {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			t.Errorf("%s: %v (%v)", name, info, err)
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a link was followed")
	}
}

// Figures are written by kind or by name, in the formats and widths asked for.
func TestPictures(t *testing.T) {
	d := usual(t).data()
	const single = "03-tcp-stream-message-131072-same-host-1-pair-change"
	for _, tt := range []struct {
		name string
		p    view.Pictures
		want []string
	}{
		{"by kind", view.Pictures{Only: []string{"overview"}, Formats: []string{"svg", "png", "pdf"}, Width: 1600}, []string{
			"overview-lower.svg", "overview-lower.png", "overview-lower.pdf", "overview-higher.svg", "overview-higher.png",
			"overview-higher.pdf",
		}},
		{"by name", view.Pictures{Only: []string{single}, Formats: []string{"pdf"}}, []string{single + ".pdf"}},
		{"of a kind that the run has not", view.Pictures{Only: []string{"curve"}}, nil},
	} {
		dir := t.TempDir()
		names, err := view.Figures(dir, d, tt.p)
		if err != nil || !slices.Equal(names, tt.want) {
			t.Errorf("%s: %q (%v), want %q", tt.name, names, err, tt.want)
		}
		for _, name := range names {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if tt.p.Width == 0 {
				continue
			}
			switch filepath.Ext(name) {
			case ".png":
				if c, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || c.Width != 1600 {
					t.Errorf("%s is %d wide (%v)", name, c.Width, err)
				}
			case ".svg":
				if !bytes.Contains(data, []byte(` width="1600" height="`)) || !bytes.Contains(data, []byte(`viewBox="0 0 460 `)) {
					t.Errorf("%s is not 1600 wide: %.200s", name, data)
				}
			case ".pdf":
				if !bytes.Contains(data, []byte("/MediaBox [0 0 1200.00 ")) {
					t.Errorf("%s is not 1200 points wide", name)
				}
			}
		}
	}
	for _, tt := range []struct {
		p    view.Pictures
		is   error
		want string
	}{
		{
			view.Pictures{Only: []string{"overview", "curv"}},
			view.ErrUnknownFigure,
			`unknown figure "curv" (known: overview, curve, change, values, latency, memory, paper; of this run: overview-lower, `,
		},
		{
			view.Pictures{Formats: []string{"svg", "gif"}},
			view.ErrUnknownFormat,
			`unknown format "gif" of figures (known: svg, png, pdf)`,
		},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		_, err := view.Figures(dir, d, tt.p)
		if !errors.Is(err, tt.is) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("error %v, want %s…", err, tt.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("something was written all the same")
		}
	}
}

// drawnOf returns the figures of a run by their names.
func drawnOf(m *made) map[string]figure.Figure {
	list := map[string]figure.Figure{}
	d := m.data()
	for _, f := range chart.Draw(d.Read(), d.Log).All {
		list[f.Name] = f
	}
	return list
}

// texts returns the texts of a figure.
func texts(f figure.Figure) []string {
	var list []string
	for _, m := range f.Marks {
		if x, ok := m.(figure.Text); ok {
			list = append(list, x.Text)
		}
	}
	return list
}

// Metrics with different better directions are not on one axis.
func TestOverviewHasOneDirection(t *testing.T) {
	all := drawnOf(usual(t))
	for name, want := range map[string][]string{
		"overview-lower":  {"Every change over the baseline: lower is better", "← better", "worse →"},
		"overview-higher": {"Every change over the baseline: higher is better", "← worse", "better →"},
	} {
		f, ok := all[name]
		if !ok || f.Kind != chart.Overview {
			t.Errorf("no overview %s", name)
			continue
		}
		list := texts(f)
		for _, w := range append(want, "change over the baseline (logarithmic)") {
			if !slices.Contains(list, w) {
				t.Errorf("%s does not say %q: %q", name, w, list)
			}
		}
		if goodput := slices.ContainsFunc(list, func(s string) bool {
			return strings.HasPrefix(s, "goodput · ")
		}); goodput != (name == "overview-higher") {
			t.Errorf("%s has goodput: %v", name, goodput)
		}
	}
	if f, ok := drawnOf(shares(t, "10%", "90%"))["overview"]; !ok || slices.Contains(texts(f), "lower is better") {
		t.Error("an overview of one direction has another name")
	}
}

// Every panel shows the better direction, and every logarithmic axis says so.
func TestAxesSayWhatTheyAre(t *testing.T) {
	for _, name := range []string{"usual", "failed", "loss"} {
		for file, f := range drawnOf(runs()[name](t)) {
			list := strings.Join(texts(f), "\n")
			switch {
			case f.Kind == chart.Memory: // no correlation is better
				if !strings.Contains(list, "ms (logarithmic)") {
					t.Errorf("%s: %s does not say that its axis is logarithmic", name, file)
				}
			case !strings.Contains(list, "better →") && !strings.Contains(list, "← better") && !strings.Contains(list, "↓ better"):
				t.Errorf("%s: %s does not say what is better", name, file)
			case f.Kind == chart.Latency && (!strings.Contains(list, "µs (logarithmic)") ||
				!strings.Contains(list, "(tail logarithmic)")):
				t.Errorf("%s: %s does not say that its axes are logarithmic", name, file)
			case f.Kind == chart.Change && name != "loss" && !strings.Contains(list, "(logarithmic)"):
				t.Errorf("%s: %s does not say that its axis is logarithmic", name, file)
			}
		}
	}
}

// The whiskers of a curve are the interval of the plotted value, also at the baseline. It is wider than that of the
// ratio if generations differ.
func TestWhiskersAreOfTheValue(t *testing.T) {
	m := shares(t, "10%", "50%", "90%")
	for i := range m.log.Trials { // the machine is faster in some generations than in others
		x := &m.log.Trials[i]
		x.Metrics["latency_p50"] *= math.Exp(0.1 * float64(x.Generation%3))
	}
	var f figure.Figure
	for name, x := range drawnOf(m) {
		if strings.HasPrefix(name, "curve-") {
			f = x
		}
	}
	d := m.data()
	v := d.Read()
	c := v.Curves()[0]
	for _, s := range c.Stacks[:2] {
		var at []figure.Point // points of the first panel, one stack after the other
		var whiskers [][]figure.Point
		for _, mark := range f.Marks {
			switch x := mark.(type) {
			case figure.Symbol:
				if x.Ink == figure.Series(s.Series) && len(at) < len(c.Points) {
					at = append(at, x.At)
				}
			case figure.Line:
				if x.Ink == figure.Series(s.Series) && x.Width == 1.2 && len(whiskers) < len(c.Points) {
					whiskers = append(whiskers, x.Points)
				}
			}
		}
		if len(at) != len(c.Points) || len(whiskers) != len(c.Points) {
			t.Fatalf("%s: %d points and %d whiskers of %d", s.Name, len(at), len(whiskers), len(c.Points))
		}
		first, last := c.Row(s, 0, c.Metrics[0]), c.Row(s, len(c.Points)-1, c.Metrics[0])
		slope := math.Log(last.Value/first.Value) / (at[len(at)-1].Y - at[0].Y)
		value := func(y float64) float64 { return first.Value * math.Exp(slope*(y-at[0].Y)) }
		for i := range c.Points {
			r := c.Row(s, i, c.Metrics[0])
			lo, hi := value(whiskers[i][0].Y), value(whiskers[i][1].Y)
			if math.Abs(lo/r.ValueLo-1) > 0.01 || math.Abs(hi/r.ValueHi-1) > 0.01 {
				t.Errorf("%s at %v: whiskers from %v to %v, the value is known from %v to %v", s.Name, c.Points[i].X, lo, hi,
					r.ValueLo, r.ValueHi)
			}
		}
	}
}

// An interval beyond the scale ends in an arrow, and a line explains the arrow.
func TestArrows(t *testing.T) {
	const says = "arrow: it goes on beyond the scale"
	m := usual(t)
	for i := range m.log.Trials { // this stack's changes become uncertain
		if x := &m.log.Trials[i]; strings.HasPrefix(x.Cell, "routed/") {
			x.Metrics["latency_p50"] *= math.Exp(3 * math.Sin(float64(x.Generation*x.Generation)))
		}
	}
	arrowsOf := func(f figure.Figure) (arrows int) {
		for _, mark := range f.Marks {
			if a, ok := mark.(figure.Area); ok && len(a.Points) == 3 {
				arrows++
			}
		}
		return arrows
	}
	f := drawnOf(m)["01-udp-rr-payload-64-mode-wait-same-host-1-pair-change"]
	arrows := arrowsOf(f)
	if arrows == 0 || !slices.Contains(texts(f), says) {
		t.Errorf("%d arrows, and the key is %q", arrows, texts(f))
	}
	for name, f := range drawnOf(usual(t)) {
		if slices.Contains(texts(f), says) && arrowsOf(f) == 0 {
			t.Errorf("%s explains arrows that it has not", name)
		}
	}
}

// A point that lost more than 1 % is called overloaded in the figure, in words and in the tables; others are not.
func TestOverloaded(t *testing.T) {
	m := shares(t, "10%", "30%", "50%", "70%", "90%")
	for i := range m.log.Trials {
		switch x := &m.log.Trials[i]; {
		case strings.Contains(x.Cell, "share=90%"):
			x.Metrics["loss"] = 0.05
		case strings.HasPrefix(x.Cell, "macvlan/") && strings.Contains(x.Cell, "share=10%"):
			x.Metrics["loss"] = 0.011
		case strings.Contains(x.Cell, "share=50%"):
			x.Metrics["loss"] = 0.009
		}
	}
	names, texts := curves(t, m)
	if len(names) != 1 {
		t.Fatalf("figures %q", names)
	}
	const panels, places = 3, 2
	if n := strings.Count(texts[0], ">overloaded<"); n != panels*places {
		t.Errorf("the word stands there %d times, want %d", n, panels*places)
	}
	if !strings.Contains(texts[0], ">ring: overloaded, more than 1 % of the packets were lost<") {
		t.Error("the key says nothing of rings")
	}
	said := regexp.MustCompile(`<desc[^>]*>(.*?)</desc>`).FindStringSubmatch(texts[0])[1]
	if !regexp.MustCompile(`macvlan, latency p50: [^,]* at 10 %, overloaded, [^,]* at 30 %, [^,]* at 50 %, [^,]* at 70 %, [^,]* at 90 %, overloaded\.`).MatchString(said) {
		t.Errorf("it says %s", said)
	}
	var b bytes.Buffer
	if err := text.Write(&b, m.data(), report.Options{Width: 200}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "s, overloaded"); n != panels*5 {
		t.Errorf("the tables say it %d times, want %d:\n%s", n, panels*5, b.String())
	}
	b.Reset()
	if err := page.Write(&b, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	checkPage(t, b.String())
}

// Curves over loads show latencies even if another metric is primary; other curves do not.
func TestCurvesOfLoadHaveLatencies(t *testing.T) {
	of := func(param string) string {
		var loads []load
		for _, x := range []string{"1000", "2000", "4000"} {
			l := udprate("28")
			l.id, l.params = "udp-rate("+param+"="+x+")", map[string]string{param: x}
			for _, q := range []string{"50", "90", "99"} {
				l.base["oneway_latency_p"+q] = 1e-5
			}
			loads = append(loads, l)
		}
		m := start(t, loads, "host", "bridge")
		m.measure(loads, 5, 2, nil)
		return m.data().Read().Curves()[0].Name()
	}
	if got, want := of("rate"), "Packet rate, one-way latency p50, p90 and p99 by rate"; got != want {
		t.Errorf("the curve is %q, want %q", got, want)
	}
	if got, want := of("payload"), "Packet rate by payload"; got != want {
		t.Errorf("the curve is %q, want %q", got, want)
	}
}

// The legend of a distribution has the same figures as the tables.
func TestLegendsAgreeWithTables(t *testing.T) {
	m := usual(t)
	d := m.data()
	v := d.Read()
	g := v.Groups[0]
	f := drawnOf(m)[g.Slug+"-latency"]
	for _, c := range g.Cells {
		want := "50 %: " + report.Number(g.Row(c, "latency_p50").Value, "s") + " · 99 %: " +
			report.Number(g.Row(c, "latency_p99").Value, "s")
		if !slices.Contains(texts(f), want) {
			t.Errorf("no %q in %q", want, texts(f))
		}
	}
}

// Metrics about nettoll itself have no verdict, also in runs that did not declare them.
func TestOwnMetricsAreNotJudged(t *testing.T) {
	m := usual(t)
	for i := range m.log.Trials {
		x := &m.log.Trials[i]
		x.Metrics["dead_time"] = 1e-4
		if strings.HasPrefix(x.Cell, "bridge/") {
			x.Metrics["dead_time"] = 3e-4
		}
	}
	var b bytes.Buffer
	if err := text.Write(&b, m.data(), report.Options{All: true, Width: 120}); err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^ *dead time .*$`).FindAllString(b.String(), -1)
	if len(lines) == 0 {
		t.Fatal("no line of dead time")
	}
	for _, l := range lines {
		if !strings.HasSuffix(l, "–") {
			t.Errorf("it is judged: %s", l)
		}
	}
}

// Further metrics are folded, on paper too. On paper, groups have no figures of their own if there are several.
func TestPaper(t *testing.T) {
	var b bytes.Buffer
	if err := page.Write(&b, usual(t).data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	if !strings.Contains(html, "<summary><h3>More metrics") || strings.Contains(html, ` open="open"`) {
		t.Error("further metrics are missing, or open")
	}
	if strings.Contains(html, "details::details-content") {
		t.Error("all that is closed is opened on paper")
	}
	if n := strings.Count(html, `<div class="figures screen">`); n != 3 || !strings.Contains(html, ".screen{display:none}") {
		t.Errorf("%d groups have figures on the screen only, want 3", n)
	}
	b.Reset()
	if err := page.Write(&b, runs()["loss"](t).data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), `class="figures screen"`) {
		t.Error("a single group has no figures on paper")
	}
}
