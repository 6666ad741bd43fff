package study

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// The metrics, in base units.
const (
	metricSetup      = "setup_time"
	metricCarrier    = "carrier_time"
	metricFirst      = "first_packet_time"
	metricIdleFirst  = "idle_first_latency"
	metricIdleNext   = "idle_next_latency"
	metricIdleRatio  = "idle_ratio"
	metricGap        = "load_gap"
	metricLost       = "load_lost"
	metricPause      = "load_pause"
	metricRekeyGap   = "rekey_gap"
	metricRekeyLost  = "rekey_lost"
	metricRekeyPause = "rekey_pause"
	metricBack       = "restart_gap"
	metricBackLost   = "restart_lost"
	metricMemory     = "memory"
	metricIdleCPU    = "cpu_programs_idle"
)

// BetweenMetrics lists the metrics of the study, in order.
func BetweenMetrics() []Metric {
	return []Metric{
		{metricSetup, measure.UnitSecond, "until a lab stands and is verified, its hosts included", true},
		{metricCarrier, measure.UnitSecond, "of that the carrier: applied anew on all hosts, until it is verified", false},
		{
			metricFirst, measure.UnitSecond,
			"from applying the carrier on both hosts to the first round trip, key exchange included", false,
		},
		{metricIdleFirst, measure.UnitSecond, "round trip of the first packet after idling", true},
		{metricIdleNext, measure.UnitSecond, "round trip of the packets after it (median of 20)", true},
		{metricIdleRatio, unitRatio, "the first one against the next", true},
		{metricGap, measure.UnitSecond, "longest time without an answer at 1 kHz, keys unchanged", true},
		{metricLost, unitPacket, "packets lost meanwhile", false},
		{metricPause, measure.UnitSecond, "longest time in which the study itself sent nothing: noise of the machine", false},
		{metricRekeyGap, measure.UnitSecond, "longest time without an answer at 1 kHz around the renewal of keys", false},
		{metricRekeyLost, unitPacket, "packets lost meanwhile", false},
		{metricRekeyPause, measure.UnitSecond, "longest time in which the study itself sent nothing", false},
		{metricBack, measure.UnitSecond, "longest time without an answer after host 2 restarts", false},
		{metricBackLost, unitPacket, "packets lost at 1 kHz by that", false},
		{metricMemory, measure.UnitByte, "memory of the programs, per host (PSS)", false},
		{metricIdleCPU, measure.UnitCores, "CPU of the programs without traffic, per host, of one core", false},
	}
}

// Costs are the results of the study.
type Costs struct {
	Plan     BetweenPlan
	Carriers []string // those that were measured, the baseline first
	Rounds   int      // completed rounds
	Values   []Value
	Missing  []Missing
	Warnings []string
}

// A Value is the result of one round.
type Value struct {
	Round   int     `json:"round"` // from 1
	Carrier string  `json:"carrier"`
	Hosts   int     `json:"hosts"`
	Metric  string  `json:"metric"`
	Value   float64 `json:"value"` // in base units
}

// A Missing is something that was not tried, with the reason.
type Missing struct {
	Carrier string `json:"carrier"`
	Metric  string `json:"metric,omitempty"` // "": no metric was tried
	Reason  string `json:"reason"`
}

func (c *Costs) note(round int, carrier string, hosts int, metric string, value float64) {
	c.Values = append(c.Values, Value{Round: round + 1, Carrier: carrier, Hosts: hosts, Metric: metric, Value: value})
}

// skip notes, once, what is not tried and why.
func (c *Costs) skip(carrier, metric string, reason error) {
	m := Missing{Carrier: carrier, Metric: metric, Reason: reason.Error()}
	if !slices.ContainsFunc(c.Missing, func(o Missing) bool { return o.Carrier == carrier && o.Metric == metric }) {
		c.Missing = append(c.Missing, m)
	}
}

func (c *Costs) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(c.Warnings, text) {
		c.Warnings = append(c.Warnings, text)
	}
}

// A Cost sums up the rounds of one carrier in one metric.
type Cost struct {
	Carrier string  `json:"carrier"`
	Hosts   int     `json:"hosts"`
	Metric  string  `json:"metric"`
	Unit    string  `json:"unit"`
	Median  float64 `json:"median"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
	Rounds  int     `json:"rounds"`
	// Ratio is the median of the ratios to the baseline in the same round, 0 if there is none.
	Ratio float64 `json:"ratio,omitempty"`
}

// Costs sums up the rounds: a cost for each metric, number of hosts and carrier that has a value.
func (c *Costs) Costs() []Cost {
	sums := c.sums()
	list := make([]Cost, len(sums))
	for i, s := range sums {
		list[i] = Cost{s.name, s.count, s.metric.Name, s.metric.Unit, s.median, s.least, s.most, s.rounds, s.ratio}
	}
	return list
}

func (c *Costs) sums() []sum {
	points := make([]point, len(c.Values))
	for i, v := range c.Values {
		points[i] = point{v.Round, v.Carrier, v.Hosts, v.Metric, v.Value}
	}
	return sumUp(BetweenMetrics(), c.Carriers, c.Plan.Hosts, Direct, points)
}

// IdleLimit is the share of a core that the programs of a lab may use without traffic before the reader is warned: they
// take it from what is measured at the same time.
const IdleLimit = 0.002

// Text writes the costs as a table for each metric: a row for each carrier, and columns for each number of hosts.
func (c *Costs) Text(w io.Writer) error {
	var b strings.Builder
	tables(&b, c.sums(), BetweenMetrics(), c.Carriers, c.Plan.Hosts, "hosts", Direct)
	c.remarks(&b, c.Costs())
	_, err := io.WriteString(w, b.String())
	return err
}

// remarks lists what was not tried, and other things that the reader should know.
func (c *Costs) remarks(b *strings.Builder, costs []Cost) {
	for _, r := range costs {
		if r.Metric == metricIdleCPU && r.Median*float64(r.Hosts) > IdleLimit {
			fmt.Fprintf(b, "Warning: with %d hosts the programs of %s use %.2g %% of a core without traffic; measure it in a "+
				"run of its own.\n", r.Hosts, r.Carrier, 100*r.Median*float64(r.Hosts))
		}
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(b, "Warning: %s.\n", w)
	}
	if len(costs) > 0 {
		fmt.Fprintf(b, "Medians of %d rounds, with the least and the most. :direct is the ratio to labs without a carrier.\n",
			max(1, c.Rounds))
	}
	for _, m := range c.Missing {
		what := m.Metric
		if what == "" {
			what = "everything"
		}
		fmt.Fprintf(b, "Not tried: %s of %s: %s.\n", what, m.Carrier, m.Reason)
	}
	if c.Rounds < c.Plan.Rounds {
		fmt.Fprintf(b, "Only %d of %d rounds were completed.\n", c.Rounds, c.Plan.Rounds)
	}
}
