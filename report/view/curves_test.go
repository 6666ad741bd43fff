package view_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/markdown"
	"github.com/nettoll/nettoll/report/page"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
)

// shares makes a run of under-load at shares of the capacity, with latencies that grow with the share.
func shares(t testing.TB, of ...string) *made {
	micros := map[string]float64{"10%": 13, "30%": 14.5, "50%": 18, "70%": 29, "90%": 160}
	var loads []load
	for _, share := range of {
		loads = append(loads, load{
			name: "under-load", id: "under-load(payload=64,share=" + share + ",mode=wait)", placement: "cross-host", pairs: 1,
			primary: "latency_p50",
			params:  map[string]string{"payload": "64", "share": share, "mode": "wait", "arrivals": "constant"},
			base: map[string]float64{
				"latency_p50": micros[share] * 1e-6, "latency_mean": 1.2e-6 * micros[share], "packet_rate": 4e3 * micros[share],
				"capacity": 4e5, "loss": 0,
			},
		})
	}
	m := start(t, loads, "host", "bridge", "bridge+nftables(rules=1000)+vxlan", "macvlan")
	m.measure(loads, 5, 8, map[string]map[string]float64{
		"bridge": {"latency_p50": 1.09}, "bridge+nftables(rules=1000)+vxlan": {"latency_p50": 1.29},
		"macvlan": {"latency_p50": 1.49},
	})
	return m
}

// curves returns the names and the texts of the figures of curves.
func curves(t *testing.T, m *made) (names, texts []string) {
	t.Helper()
	dir := t.TempDir()
	all, err := view.Figures(dir, m.data(), view.Pictures{})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if !strings.HasPrefix(file, "curve-") || !strings.HasSuffix(file, ".svg") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		checkFile(t, file, string(text))
		names, texts = append(names, file), append(texts, string(text))
	}
	return names, texts
}

// Figures and tables show metrics over the values of a parameter, in whatever order these were asked for.
func TestCurves(t *testing.T) {
	m := shares(t, "50%", "10%", "90%", "30%", "70%")
	for i := range m.log.Trials {
		if x := &m.log.Trials[i]; strings.HasPrefix(x.Cell, "bridge/") && strings.Contains(x.Cell, "share=90%") {
			x.Metrics, x.Failed = nil, "no answer"
		}
	}
	m.log.Histograms = slices.DeleteFunc(m.log.Histograms, func(h measure.Histograms) bool {
		return strings.HasPrefix(h.Cell, "bridge/") && strings.Contains(h.Cell, "share=90%")
	})
	names, texts := curves(t, m)
	if want := []string{"curve-01-share-under-load-payload-64-mode-wait-cross-host-1-pair.svg"}; !slices.Equal(names,
		want) {
		t.Fatalf("figures %q, want %q", names, want)
	}
	for _, want := range []string{
		`>Latency p50, p90 and p99 by share<`, `>under-load: payload 64, mode wait · cross host · 1 pair<`,
		`>latency p50, µs (logarithmic)<`, `>latency p99, µs (logarithmic)<`, `>↓ better<`,
		`>10 %<`, `>90 %<`, `>share<`, `>bridge+nftables(rules=1000)+vxlan<`,
		`>whiskers: 95 % interval of the value itself<`, `>latency p90, µs (logarithmic)<`,
	} {
		if !strings.Contains(texts[0], want) {
			t.Errorf("no %s in the figure", want)
		}
	}
	said := regexp.MustCompile(`<desc[^>]*>(.*?)</desc>`).FindStringSubmatch(texts[0])[1]
	if !regexp.MustCompile(`^host, latency p50: [0-9.]+ µs at 10 %, .* at 30 %, .* at 50 %, .* at 70 %, 1[0-9]+ µs at 90 %\. host, latency p90: .* host, latency p99: `).MatchString(said) ||
		!regexp.MustCompile(`bridge, latency p50: [^.]+\.[^:]* at 70 %\. bridge, latency p90`).MatchString(said) {
		t.Errorf("it says %s", said)
	}
	var b bytes.Buffer
	if err := text.Write(&b, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(b.String()[strings.Index(b.String(), "Latency p50, p90 and p99 by share"):], "\nunder-load  ")
	golden(t, "curves.golden", text)
	b.Reset()
	if err := markdown.Write(&b, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	checkMarkdown(t, b.String())
	if !strings.Contains(b.String(), "## Curves\n\n### Latency p50, p90 and p99 by share: under-load: payload 64, mode wait · cross "+
		"host · 1 pair\n\n**Latency p50**\n\n| stack | share 10 % | 30 % |") {
		t.Errorf("no curves in %s", b.String())
	}
	b.Reset()
	if err := page.Write(&b, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	checkPage(t, b.String())
	if n := strings.Count(b.String(), `>Latency p50, p90 and p99 by share: under-load: payload 64`); n != 2 { // heading and figure
		t.Errorf("the page names the curve %d times", n)
	}
}

// Sizes that are far apart are on a logarithmic axis. A parameter crossed with another has a curve for each value of
// the other.
func TestCurvesOfSizes(t *testing.T) {
	var loads []load
	for _, mode := range []string{"single", "batched"} {
		for _, payload := range []string{"64", "1024", "auto", "65507"} {
			l := udprate(payload)
			l.id = "udp-rate(payload=" + payload + ",mode=" + mode + ")"
			l.params["mode"] = mode
			loads = append(loads, l)
		}
	}
	m := start(t, loads, "host", "bridge")
	m.measure(loads, 5, 2, nil)
	names, texts := curves(t, m)
	want := []string{
		"curve-01-payload-udp-rate-mode-single-cross-host-1-pair.svg",
		"curve-02-payload-udp-rate-mode-batched-cross-host-1-pair.svg",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("figures %q, want %q", names, want)
	}
	for _, want := range []string{`>payload, bytes (logarithmic)<`, `>65507<`, `>↑ better<`, `>packet rate, kpacket/s<`} {
		if !strings.Contains(texts[0], want) {
			t.Errorf("no %s in the figure", want)
		}
	}
}

// Two values do not make a curve, and neither do words.
func TestNoCurves(t *testing.T) {
	if names, _ := curves(t, shares(t, "10%", "90%")); names != nil {
		t.Errorf("figures %q of two values", names)
	}
	if names, _ := curves(t, usual(t)); names != nil {
		t.Errorf("figures %q of the usual run", names)
	}
	if names, _ := curves(t, start(t, []load{udprate("28"), udprate("100"), udprate("1000")}, "host")); names != nil {
		t.Errorf("figures %q of a run without trials", names)
	}
}

// A parameter of stacks has a curve within a group: a line for all stacks that are otherwise equal, and the baseline.
func TestCurvesOfStacks(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	change := map[string]map[string]float64{}
	var stacks []string
	for _, filter := range []string{"nftables", "iptables"} {
		for i, rules := range []string{"1000", "10", "100"} {
			s := "bridge+" + filter + "(rules=" + rules + ",kind=list)"
			stacks = append(stacks, s)
			change[s] = map[string]float64{"latency_p50": []float64{1.9, 1.1, 1.3}[i]}
		}
	}
	stacks = append([]string{"host"},
		append(stacks, "bridge+ipset(rules=10,kind=list)", "bridge+vxlan+wireguard(mtu=1420)")...)
	m := start(t, loads, stacks...)
	m.measure(loads, 5, 4, change)
	names, texts := curves(t, m)
	if want := []string{"curve-01-rules-udp-rr-payload-64-mode-wait-same-host-1-pair.svg"}; !slices.Equal(names, want) {
		t.Fatalf("figures %q, want %q", names, want)
	}
	said := regexp.MustCompile(`<desc[^>]*>(.*?)</desc>`).FindStringSubmatch(texts[0])[1]
	if !regexp.MustCompile(`^loopback, latency p50: (13\.. µs) at 10, 13\.. µs at 100, 13\.. µs at 1000\. .*bridge\+nftables\(kind=list\), latency p50: 14\.. µs at 10, 17\.. µs at 100, 25\.. µs at 1000\.`).MatchString(said) ||
		!strings.Contains(said, "bridge+iptables(kind=list), latency p99: ") || strings.Contains(said, "ipset") {
		t.Errorf("it says %s", said)
	}
	if !strings.Contains(texts[0], ">rules (logarithmic)<") {
		t.Error("the axis is not logarithmic")
	}
}

// The default of a parameter, which names omit, is a point as well; 0 is apart from a logarithmic axis.
func TestCurvesFromZero(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	change := map[string]map[string]float64{}
	stacks := []string{"routed"}
	for _, filter := range []string{"iptables", "nftables"} {
		for i, rules := range []string{"", "(rules=10)", "(rules=1000)", "(rules=10000)"} {
			s := "routed+" + filter + rules
			stacks = append(stacks, s)
			change[s] = map[string]float64{"latency_p50": []float64{1.05, 1.06, 1.3, 4}[i]}
		}
	}
	m := start(t, loads, stacks...)
	m.measure(loads, 5, 4, change)
	for i := range m.run.Cells {
		if c := &m.run.Cells[i]; !strings.Contains(c.ID, "rules=") && strings.Contains(c.ID, "tables") {
			c.Parts[1].Params, c.Parts[1].Default = map[string]string{"rules": "0"}, []string{"rules"}
		}
	}
	names, texts := curves(t, m)
	if len(names) != 1 {
		t.Fatalf("figures %q, want one", names)
	}
	for _, want := range []string{">0<", ">10<", ">1000<", ">10000<", ">rules (logarithmic, 0 apart)<"} {
		if !strings.Contains(texts[0], want) {
			t.Errorf("no %s in the figure", want)
		}
	}
	said := regexp.MustCompile(`<desc[^>]*>(.*?)</desc>`).FindStringSubmatch(texts[0])[1]
	if !regexp.MustCompile(`^routed, latency p50: (13\.. µs) at 0, 13\.. µs at 10, .*routed\+nftables, latency p50: 14\.. µs at 0, 14\.. µs at 10, 17\.. µs at 1000, 5\d\.. µs at 10000\.`).MatchString(said) {
		t.Errorf("it says %s", said)
	}
	var b bytes.Buffer
	if err := markdown.Write(&b, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "| stack | rules 0 | 10 | 1000 | 10000 |") {
		t.Errorf("no 0 in the table of %s", b.String())
	}
	b.Reset()
	if err := text.Write(&b, m.data(), report.Options{}); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`rules 0 +10 +1000 +10000`).MatchString(b.String()) {
		t.Errorf("no 0 in the table of %s", b.String())
	}
}

// A baseline that is a point of a curve is not a line of its own.
func TestCurveOfBaseline(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	m := start(t, loads, "nat", "nat(entries=100)", "nat(entries=10000)", "bridge")
	m.measure(loads, 5, 4, nil)
	for i := range m.run.Cells {
		if c := &m.run.Cells[i]; strings.HasPrefix(c.ID, "nat/") {
			c.Parts[0].Params, c.Parts[0].Default = map[string]string{"entries": "0"}, []string{"entries"}
		}
	}
	_, texts := curves(t, m)
	if len(texts) != 1 {
		t.Fatalf("%d figures, want one", len(texts))
	}
	if said := regexp.MustCompile(`<desc[^>]*>(.*?)</desc>`).FindStringSubmatch(texts[0])[1]; !regexp.MustCompile(`^nat, latency p50: \S+ µs at 0, \S+ µs at 100, \S+ µs at 10000\. nat, latency p90`).MatchString(said) {
		t.Errorf("it says %s", said)
	}
}
