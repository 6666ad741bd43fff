package suite

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// The claims of the article hold on its own figures, and those that cannot be measured here yet say so.
func TestAlibabaOnItsOwnFigures(t *testing.T) {
	s := find(t, "alibaba-eni")
	run := runOf(resolve(t, s))
	r := s.Evaluate(run, &measure.Log{}, measure.Analyze(run, &measure.Log{}))
	got := map[string]string{}
	for _, c := range r.Claims {
		got[c.ID] = finding(c.There, c.Parts, func(p Part) measure.Finding { return p.Finding }).Text
	}
	want := map[string]string{
		"single-faster": "holds", "single-gain": "holds", "multi-faster": "holds",
		"multi-gain":   "holds",
		"store-faster": "holds (2/2)", "store-gain": "holds (2/2)", "store-sooner": "holds (2/2)",
		"page-multi-nic": "holds", "page-routed": "holds", "page-vxlan": "holds",
		"threads-gain": "holds", "threads-scale": "holds (2/2)",
		// the article has no figures of these
		"bandwidth-routed": "undecided (0/2)", "bandwidth-multi-nic": "undecided (0/2)", "bandwidth-vxlan": "holds",
		"latency-multi-nic": "undecided", "latency-routed": "not tried", "less-softirq": "not tried",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	shares := 0
	for _, c := range r.Compare() {
		if c.At[metricOf] != "page-rate" {
			continue
		}
		shares++
		row := r.row(c, s.metric("page-rate"))
		if name := c.At[stackOf]; row[1].Text != fixed(c.Figure.Value, 2)+" of host" || row[0].Text != name+", small" ||
			(c.Cell == nil) != (name == "vxlan") {
			t.Errorf("%s: %+v, cell %v", name, row, c.Cell)
		}
	}
	if shares != 4 {
		t.Errorf("%d shares", shares)
	}
	const word = "Vxlan was not measured: it is the article's default Flannel, whose programs you have to have: add --network " +
		"'cni(plugin=flannel)'"
	if !slices.ContainsFunc(r.differs().Blocks, func(b report.Block) bool { return strings.HasPrefix(b.Text, word) }) {
		t.Errorf("what differs does not say %q", word)
	}
}

// A run to which Flannel was added tries both claims about it.
func TestAlibabaWithFlannel(t *testing.T) {
	s := find(t, "alibaba-eni")
	run := runOf(resolve(t, s))
	for _, c := range slices.Clone(run.Cells) {
		if c.Stack != "routed" {
			continue
		}
		c.ID, c.Stack = strings.Replace(c.ID, "routed", "cni(plugin=flannel)", 1), "cni(plugin=flannel)"
		run.Cells = append(run.Cells, c)
	}
	r := s.Evaluate(run, &measure.Log{}, measure.Analyze(run, &measure.Log{}))
	for _, b := range r.differs().Blocks {
		if strings.HasPrefix(b.Text, "Vxlan was not measured") {
			t.Error(b.Text)
		}
	}
	for _, c := range r.Compare() {
		if c.At[stackOf] == "vxlan" && c.Cell == nil {
			t.Errorf("no cell at %v", c.At)
		}
	}
	for _, c := range r.Claims {
		if (c.ID == "page-vxlan" || c.ID == "bandwidth-vxlan") && c.Parts[0].untried {
			t.Errorf("%s is not tried: %s", c.ID, c.Parts[0].Missing)
		}
	}
}

// On a machine whose figures are those of the article, every claim that can be measured holds. Cells with datagrams of
// another size have that size in both stacks.
func TestEvaluateInTheArticle(t *testing.T) {
	s := find(t, "alibaba-eni")
	run := runOf(resolve(t, s))
	rnd := rand.New(rand.NewPCG(1, 5))
	log := &measure.Log{}
	for b := range 30 {
		for i := range run.Cells {
			c := &run.Cells[i]
			metrics := map[string]float64{}
			for _, m := range s.Metrics { // metrics without a figure
				metrics[m.Here.metricName(c)] = 1 + 1e-4*rnd.NormFloat64()
			}
			for _, f := range s.Figures {
				of := *c
				of.ID, of.Twin = strings.TrimSuffix(c.ID, "#2"), false
				if own := s.cell(&run, f.At); own != nil && own.ID == of.ID {
					metrics[s.metric(f.At[metricOf]).Here.metricName(c)] = f.Value * (1 + 1e-4*rnd.NormFloat64())
				}
			}
			log.Trials = append(log.Trials, measure.Trial{
				Generation: 1 + b/3, Block: b, Cell: c.ID, Duration: 0.1, Metrics: metrics,
			})
		}
	}
	for _, c := range evaluate(s, run, log).Claims {
		want := c.There
		if c.ID == "page-vxlan" || c.ID == "bandwidth-vxlan" { // without the stack
			want = NotTried
		}
		if c.Plot != "" {
			continue
		}
		if c.Here.Finding != want {
			t.Errorf("%s: %s, want %s; %+v", c.ID, c.Here.Finding, want, c.Parts[0])
		}
	}
}
