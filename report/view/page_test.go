package view_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/markdown"
	"github.com/nettoll/nettoll/report/page"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
)

// claims is a section of a suite.
func claims() []report.Section {
	return []report.Section{{Title: "Claims of the paper", Blocks: []report.Block{
		{Text: "Two claims were evaluated on the paper's own figures, then here."},
		{Table: &report.Table{
			Caption: "Claims", Columns: []report.Column{
				{Title: "claim"}, {Title: "published", Right: true}, {Title: "here", Right: true}, {Title: "verdict"},
			},
			Rows: [][]report.Field{
				{{Text: "a bridge costs latency"}, {Text: "+9 %"}, {Text: "+8.9 to +9.3 %"}, {Text: "holds", Tone: report.Good}},
				{{Text: "a route costs more"}, {Text: "+12 %"}, {Text: "−1 to +1 %"}, {Text: "does not", Tone: report.Bad}},
				{{Text: "a row that is short"}},
			},
		}},
		{Text: "The second was measured on another kernel.", Tone: report.Doubt},
	}}}
}

const hostile = `<script>alert("1")</script>|*_[x](http://example.org)&amp;'`

// ugly is a run with hostile names and messages.
func ugly(t testing.TB) *made {
	loads := []load{udprr("same-host", 1)}
	bad := "bridge+" + hostile
	m := start(t, loads, "host", strings.ReplaceAll(bad, "/", "∕"))
	m.measure(loads, 5, 4, nil)
	m.run.Name = hostile
	m.run.Source = "name: " + hostile + "\n```\n~~~\n</pre>\x1b[31m\n"
	m.run.Facts["kernel"] = hostile
	m.run.Facts["left_out"] = []map[string]string{{"what": hostile, "reason": "</details>"}}
	m.run.Versions["nettoll"] = "\x00\xff" + hostile
	for i := range m.run.Cells {
		m.run.Cells[i].Params = map[string]string{"payload": hostile}
		m.run.Cells[i].Parts[4].ID = hostile
		m.run.Cells[i].Implementation = map[string]string{"network": hostile}
	}
	m.log.Warnings = []measure.Warning{{Cell: hostile, Text: hostile + "\n# heading"}}
	m.log.Proofs = []measure.Proof{{Generation: 1, Lab: hostile, Claim: hostile, When: hostile, Detail: hostile}}
	m.log.Facts = []measure.Fact{
		{Key: hostile, Value: hostile},
		{Key: "sockets of " + hostile, Value: map[string]any{hostile: map[string]any{hostile: hostile}}},
	}
	m.log.Trials[3].Failed = hostile
	m.log.Trials[4].Metrics[hostile] = 3
	return m
}

// runs are the runs on which every view for people is tested.
func runs() map[string]func(testing.TB) *made {
	return map[string]func(testing.TB) *made{
		"usual": func(t testing.TB) *made { return usual(t) },
		"one": func(t testing.TB) *made { // cell
			m := start(t, []load{tcpstream("same-host")}, "host")
			m.run.Cells = m.run.Cells[:1]
			m.measure([]load{tcpstream("same-host")}, 5, 4, nil)
			return m
		},
		"failed": func(t testing.TB) *made {
			loads := []load{udprr("same-host", 1), tcpstream("same-host")}
			m := start(t, loads, "host", "bridge", "macvlan")
			m.measure(loads, 5, 4, map[string]map[string]float64{"bridge": bridge()})
			for i := range m.log.Trials {
				if x := &m.log.Trials[i]; strings.HasPrefix(x.Cell, "macvlan") ||
					strings.HasPrefix(x.Cell, "host/same-host/1/tcp-stream") {
					x.Metrics, x.Failed = nil, "no answer within 2 s"
				}
			}
			m.prove(5, "before", "after")
			m.log.Proofs[3].OK, m.log.Proofs[3].Detail = false, "no answer"
			return m
		},
		"nothing": func(t testing.TB) *made { return start(t, []load{udprr("same-host", 1)}, "host", "bridge") },
		"interrupted": func(t testing.TB) *made {
			loads := []load{udprr("same-host", 1)}
			m := start(t, loads, "host", "bridge")
			m.measure(loads, 1, 3, map[string]map[string]float64{"bridge": bridge()})
			m.prove(1, "before")
			m.log.Generations, m.log.End = nil, nil // it was killed
			return m
		},
		"loss": func(t testing.TB) *made { // as the primary metric: differences
			loads := []load{udprate("28")}
			loads[0].primary = "loss"
			m := start(t, loads, "host", "bridge", "bridge+vxlan")
			m.measure(loads, 5, 8, map[string]map[string]float64{"bridge+vxlan": {"packet_rate": 0.7, "loss": 0.013}})
			return m
		},
		"odd": func(t testing.TB) *made { // numbers
			loads := []load{udprr("same-host", 1)}
			m := start(t, loads, "host", "bridge", "routed", "nat")
			m.measure(loads, 5, 4, map[string]map[string]float64{
				"bridge": {"latency_p50": 1e5}, "routed": {"latency_p50": 1e-4}, "nat": {"latency_p50": 0},
			})
			for i := range m.log.Trials {
				switch x := &m.log.Trials[i]; {
				case strings.HasPrefix(x.Cell, "nat") && i%2 == 0:
					x.Metrics["latency_p50"] = 0
				case i%17 == 0:
					x.Metrics["latency_p50"] = math.NaN()
				case i%19 == 0:
					x.Metrics["latency_p50"] = math.Inf(1)
				}
			}
			m.log.Histograms[1].Data = "HISTFAAA" // torn
			return m
		},
		"ugly": ugly,
		"many": many,
	}
}

// many is a run of 200 cells in ten groups.
func many(t testing.TB) *made {
	var loads []load
	for _, pairs := range []int{1, 2, 5, 10} {
		loads = append(loads, udprr("same-host", pairs), udprr("cross-host", pairs))
	}
	loads = append(loads, tcpstream("same-host"), tcpstream("cross-host"))
	stacks := []string{"host"}
	change := map[string]map[string]float64{}
	for i := range 18 {
		s := []string{"bridge", "routed", "nat"}[i%3] + []string{"", "+nftables(rules=1000)"}[i/3%2] +
			[]string{"", "+vxlan", "+vxlan+wireguard(mtu=1420)"}[i/6]
		stacks = append(stacks, s)
		change[s] = map[string]float64{"latency_p50": 1 + 0.05*float64(i%7), "goodput": 1 - 0.03*float64(i%9)}
	}
	m := start(t, loads, stacks...)
	m.measure(loads, 5, 1, change)
	m.prove(5, "before", "after")
	return m
}

func TestHTML(t *testing.T) {
	for name, run := range runs() {
		t.Run(name, func(t *testing.T) {
			m := run(t)
			var b, again bytes.Buffer
			for _, w := range []io.Writer{&b, &again} {
				if err := page.Write(w, m.data(), report.Options{Sections: claims()}); err != nil {
					t.Fatal(err)
				}
			}
			if b.String() != again.String() {
				t.Error("two pages of one run differ")
			}
			page := b.String()
			checkPage(t, page)
			if strings.Contains(page, "<script") || strings.Contains(page, "\x1b") || strings.Contains(page, "\x00") {
				t.Error("a name from the records got through as it was")
			}
			if n := b.Len(); n > 2<<20 {
				t.Errorf("%d bytes, want at most 2 MiB", n)
			}
			if !strings.Contains(page, "does not</td>") {
				t.Error("the section is missing")
			}
		})
	}
}

// checkPage checks that a page is well-formed XML, loads nothing, and describes each figure.
func checkPage(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(page, "<!DOCTYPE html>\n")))
	ids := map[string]bool{}
	figures, words, depth := 0, 0, 0
	var open []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			depth++
			open = append(open, e.Name.Local)
			switch e.Name.Local {
			case "script", "link", "img", "iframe", "object", "image", "use", "base", "form":
				t.Errorf("element %s", e.Name.Local)
			case "svg":
				figures++
			}
			for _, a := range e.Attr {
				switch a.Name.Local {
				case "src", "href", "style", "srcset", "action", "xlink":
					t.Errorf("attribute %s of %s", a.Name.Local, e.Name.Local)
				case "id":
					if ids[a.Value] {
						t.Errorf("id %q twice", a.Value)
					}
					ids[a.Value] = true
				case "role":
					if a.Value != "img" {
						t.Errorf("role %q", a.Value)
					}
				}
				if strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("attribute %s", a.Name.Local)
				}
			}
		case xml.CharData:
			if len(open) > 2 && open[len(open)-2] == "svg" && (open[len(open)-1] == "title" || open[len(open)-1] == "desc") &&
				len(e) > 5 {
				words++
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
	if words != 2*figures {
		t.Errorf("%d titles and descriptions of %d figures", words, figures)
	}
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page)
	if len(style) != 2 || strings.Contains(style[1], "url(") || strings.Contains(style[1], "@import") {
		t.Error("no style sheet, or one that loads something")
	}
	if got := regexp.MustCompile(`NaN|Inf\b|%!`).FindString(page); got != "" {
		t.Errorf("%q is not for people", got)
	}
}

// Each row with a change also has an interval and a verdict.
func TestNoRatioWithoutIntervalAndVerdict(t *testing.T) {
	for name, run := range runs() {
		var b bytes.Buffer
		if err := page.Write(&b, run(t).data(), report.Options{}); err != nil {
			t.Fatal(err)
		}
		rows := regexp.MustCompile(`<tr><th scope="row">.*?</tr>`).FindAllString(b.String(), -1)
		for _, r := range rows {
			if !strings.Contains(r, `data-l="change"`) && !strings.Contains(r, `data-l="over `) {
				continue
			}
			if !strings.Contains(r, `data-l="95`) || !strings.Contains(r, `data-l="verdict"`) {
				t.Errorf("%s: a change without interval or verdict: %s", name, r)
			}
		}
	}
}

func TestMarkdown(t *testing.T) {
	for name, run := range runs() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := markdown.Write(&b, run(t).data(), report.Options{Sections: claims()}); err != nil {
				t.Fatal(err)
			}
			checkMarkdown(t, b.String())
			if name == "usual" || name == "failed" || name == "ugly" {
				golden(t, name+".md", b.String())
			}
		})
	}
}

// checkMarkdown checks that all rows of a table have as many fields, and that no text from the records is markup.
func checkMarkdown(t *testing.T, text string) {
	t.Helper()
	columns := 0
	fenced := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "```") {
			fence := strings.TrimRight(line, " ")
			switch fenced {
			case "":
				fenced = fence
			case fence:
				fenced = ""
			}
			continue
		}
		if fenced != "" {
			continue
		}
		if !strings.HasPrefix(line, "| ") {
			columns = 0
		} else if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); columns == 0 {
			columns = n
		} else if n != columns {
			t.Errorf("%d bars, the heading has %d: %s", n, columns, line)
		}
		rest := regexp.MustCompile(`</?(details|summary)>`).ReplaceAllString(line, "")
		if strings.Contains(rest, "<") || regexp.MustCompile(`[^\\]\]\(|://[^&]|NaN|%!`).MatchString(rest) ||
			strings.Contains(rest, "\x1b") {
			t.Errorf("markup from the records, or not for people: %s", line)
		}
	}
	if fenced != "" || strings.Count(text, "<details>") != strings.Count(text, "</details>") {
		t.Error("something was opened and not closed")
	}
}

func TestFigures(t *testing.T) {
	for name, run := range runs() {
		if name == "many" {
			continue // packing 30 images takes seconds, and the page has the same figures
		}
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			names, err := view.Figures(dir, run(t).data(), view.Pictures{})
			if err != nil {
				t.Fatal(err)
			}
			if (name == "nothing") != (len(names) == 0) {
				t.Errorf("%d figures", len(names))
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != len(names) {
				t.Errorf("%d files for %d names (%v)", len(entries), len(names), err)
			}
			for _, file := range names {
				if !regexp.MustCompile(`^[a-z0-9-]{1,100}\.(svg|png)$`).MatchString(file) {
					t.Errorf("name %q", file)
				}
				data, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(file, ".png") {
					c, err := png.DecodeConfig(bytes.NewReader(data))
					if err != nil || c.Width != 920 || c.Height < 200 {
						t.Errorf("%s: %d × %d (%v)", file, c.Width, c.Height, err)
					}
					continue
				}
				checkFile(t, file, string(data))
			}
		})
	}
}

// checkFile checks an SVG file.
func checkFile(t *testing.T, file, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v", file, err)
		}
	}
	rest := strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, "")
	// texts that people read
	rest = regexp.MustCompile(`(?s)<(title|desc|text)[ >].*?</(title|desc|text)>`).ReplaceAllString(rest, "")
	if strings.Contains(rest, "//") || strings.Contains(rest, "<script") || !strings.Contains(text, `role="img"`) ||
		!strings.Contains(text, "<title ") || !strings.Contains(text, "<desc ") {
		t.Errorf("%s refers to something else, or says nothing in words", file)
	}
	if strings.Contains(rest, "class=") || strings.Contains(rest, "var(") || strings.Contains(rest, "currentColor") {
		t.Errorf("%s has colours that browsers alone know", file)
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("%s has a mark that is nowhere", file)
	}
}

// Figures have descriptions in words.
func TestDescriptions(t *testing.T) {
	var b bytes.Buffer
	if err := page.Write(&b, usual(t).data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<desc id="f3-d">loopback, twin: `, `bridge: +9.0 %, 95 % interval +`, `, slower. routed: `, `The floor ±`,
		`; half of the trials lie between `, `half of the round trips take no longer than `, `, 99.9 % no longer than `,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no figure says %q: %s", want,
				strings.Join(regexp.MustCompile(`<desc.*?</desc>`).FindAllString(b.String(), 4), "\n"))
		}
	}
}

func TestSectionAsText(t *testing.T) {
	m := usual(t)
	var b bytes.Buffer
	if err := text.Write(&b, m.data(), report.Options{Sections: claims()}); err != nil {
		t.Fatal(err)
	}
	golden(t, "section.golden", b.String())
	tidy(t, b.String(), report.Options{})
}

// Details are shown on request.
func TestDetailSection(t *testing.T) {
	d := usual(t).data()
	sections := []report.Section{{Title: "The fine print", Detail: true, Blocks: []report.Block{{Text: "Read it."}}}}
	for _, all := range []bool{false, true} {
		var b bytes.Buffer
		if err := text.Write(&b, d, report.Options{All: all, Sections: sections}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "The fine print\nRead it.\n"); got != all {
			t.Errorf("all %v: shown %v", all, got)
		}
	}
	var b bytes.Buffer
	if err := page.Write(&b, d, report.Options{Sections: sections}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "<details><summary><h2>The fine print</h2></summary><p>Read it.</p></details>") {
		t.Error("not folded in the page")
	}
}

// BenchmarkPage loads a run of 100,000 trials (about 50 MB) and writes its page (limit: 2 s).
func BenchmarkPage(b *testing.B) {
	dir := large(b)
	var size int
	for b.Loop() {
		d, _, err := report.Load(dir)
		if err != nil {
			b.Fatal(err)
		}
		var out bytes.Buffer
		if err := page.Write(&out, d, report.Options{}); err != nil {
			b.Fatal(err)
		}
		size = out.Len()
	}
	b.ReportMetric(float64(size), "page-bytes")
}

// large writes the directory of a run of 100,000 trials, with every metric that udp-rr records, and histograms over 32
// blocks each.
func large(tb testing.TB) string {
	loads := []load{udprr("same-host", 1), udprr("cross-host", 1), tcpstream("same-host")}
	m := start(tb, loads, "host", "bridge", "routed")
	for i := range loads {
		for j := range 9 {
			loads[i].base[fmt.Sprintf("more_%d", j)] = 1.23456e-5 * float64(j+1)
		}
	}
	const generations, blocks, group = 20, 417, 32
	m.measure(loads, generations, blocks, map[string]map[string]float64{"bridge": bridge()})
	for i := range m.log.Trials {
		t := &m.log.Trials[i]
		t.PerPair = map[string][]float64{"transaction_rate": {t.Metrics["transaction_rate"], 1, 2, 3}}
	}
	var grouped []measure.Histograms
	for _, h := range m.log.Histograms {
		for first := h.First; first <= h.Last; first += group {
			h := h
			h.First, h.Last = first, min(first+group-1, h.Last)
			grouped = append(grouped, h)
		}
	}
	m.log.Histograms = grouped
	m.prove(generations, "before", "after")
	dir := m.save()
	if info, err := os.Stat(filepath.Join(dir, "records.jsonl")); err == nil {
		tb.Logf("%d trials, %d histograms, %d MB", len(m.log.Trials), len(grouped), info.Size()>>20)
	}
	return dir
}

// Two small pages are compared as a whole, so that no change goes unnoticed.
func TestPages(t *testing.T) {
	for _, name := range []string{"interrupted", "loss"} {
		var b bytes.Buffer
		if err := page.Write(&b, runs()[name](t).data(), report.Options{}); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".html", b.String())
	}
}
