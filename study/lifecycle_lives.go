package study

import (
	"fmt"
	"io"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// The metrics of the study of life cycles, in base units.
const (
	metricByte         = "first_byte_time"
	metricDaemon       = "daemon_time"
	metricContainer    = "container_time"
	metricNetwork      = "network_time"
	metricWorker       = "worker_time"
	metricAnswer       = "answer_time"
	metricRest         = "rest_time"
	metricCommand      = "command_time"
	metricCommands     = "commands_time"
	metricAdded        = "added_time"
	metricRemoval      = "removal_time"
	metricRemovalAlone = "command_removal_time"
	metricWorkerMemory = "worker_memory"
)

// LifecycleMetrics lists the metrics of the study, in order.
func LifecycleMetrics() []Metric {
	second := func(name, summary string) Metric { return Metric{name, measure.UnitSecond, summary, false} }
	return []Metric{
		second(metricByte, "until a packet has come back in every pair; of the whole lab"),
		second(metricDaemon, "of that the daemon, or the store, of the host"),
		second(metricContainer, "of that the runtime, per container"),
		second(metricNetwork, "of that the network, per container"),
		second(metricWorker, "of that until its worker has answered a call, per container"),
		second(metricAnswer, "of that the first round trip, per container"),
		second(metricRest, "of that the rest: the host starts, and everything is verified; of the whole lab"),
		second(metricCommand, "the runtime's own command alone, on the same host, without a network"),
		second(metricCommands, "the same command, as many at the same time as the lab has it, per container"),
		second(metricAdded, "all of that without the daemon, per container, minus such a command"),
		second(metricRemoval, "until it is gone, without the daemon, per container"),
		second(metricRemovalAlone, "removal of a container of the command alone, by the runtime's own command"),
		{metricMemory, measure.UnitByte, "memory of daemons, shims and monitors (PSS), per container", false},
		{metricWorkerMemory, measure.UnitByte, "memory of workers (PSS), per container", false},
	}
}

// Lives are the results of the study of life cycles.
type Lives struct {
	Plan     LifecyclePlan
	Runtimes []string // those that were measured
	Rounds   int      // completed rounds
	Values   []LifeValue
	Missing  []Unmeasured
	Failed   []string // visits without values, each with the reason
}

// A LifeValue is the result of one round.
type LifeValue struct {
	Round      int     `json:"round"` // from 1
	Runtime    string  `json:"runtime"`
	Containers int     `json:"containers"`
	Metric     string  `json:"metric"`
	Value      float64 `json:"value"` // in base units
}

// An Unmeasured is a runtime that was not tried, with the reason.
type Unmeasured struct {
	Runtime string `json:"runtime"`
	Reason  string `json:"reason"`
}

// A Life sums up the rounds of one runtime in one metric.
type Life struct {
	Runtime    string  `json:"runtime"`
	Containers int     `json:"containers"`
	Metric     string  `json:"metric"`
	Unit       string  `json:"unit"`
	Median     float64 `json:"median"`
	Least      float64 `json:"least"`
	Most       float64 `json:"most"`
	Rounds     int     `json:"rounds"`
}

func (l *Lives) note(round int, runtime string, containers int, metric string, value float64) {
	l.Values = append(l.Values, LifeValue{round + 1, runtime, containers, metric, value})
}

// Lives sums up the rounds: a life for each metric, number of containers and runtime that has a value.
func (l *Lives) Lives() []Life {
	sums := l.sums()
	list := make([]Life, len(sums))
	for i, s := range sums {
		list[i] = Life{s.name, s.count, s.metric.Name, s.metric.Unit, s.median, s.least, s.most, s.rounds}
	}
	return list
}

func (l *Lives) sums() []sum {
	points := make([]point, len(l.Values))
	for i, v := range l.Values {
		points[i] = point{v.Round, v.Runtime, v.Containers, v.Metric, v.Value}
	}
	return sumUp(LifecycleMetrics(), l.Runtimes, l.counts(), "", points)
}

// counts are the numbers of containers.
func (l *Lives) counts() []int {
	list := make([]int, len(l.Plan.Pairs))
	for i, pairs := range l.Plan.Pairs {
		list[i] = in(pairs)
	}
	return list
}

// Text writes a table for each metric: a row for each runtime, and columns for each number of containers.
func (l *Lives) Text(w io.Writer) error {
	var b strings.Builder
	tables(&b, l.sums(), LifecycleMetrics(), l.Runtimes, l.counts(), "containers", "")
	for _, text := range l.Failed {
		fmt.Fprintf(&b, "Failed: %s.\n", text)
	}
	if len(l.Values) > 0 {
		fmt.Fprintf(&b, "Medians of %d rounds, with the least and the most.\n", max(1, l.Rounds))
	}
	for _, m := range l.Missing {
		fmt.Fprintf(&b, "Not tried: %s: %s.\n", m.Runtime, m.Reason)
	}
	if l.Rounds < l.Plan.Rounds {
		fmt.Fprintf(&b, "Only %d of %d rounds were completed.\n", l.Rounds, l.Plan.Rounds)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
