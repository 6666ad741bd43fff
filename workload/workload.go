package workload

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/traffic"
)

// Workload is one kind of traffic.
type Workload interface {
	// Describe says what it is.
	Describe() Description
	// Open opens one endpoint; see [Spec]. It is called with the calling thread inside the container's network namespace, for the
	// sinks of a cell first. An endpoint whose sink has to wait for its source has a Ready method as well.
	Open(Spec) (traffic.Endpoint, error)
	// Metrics turns the samples of one trial into metrics in base units, with the names of measure's table.
	Metrics(Trial) Result
}

// Readier is implemented by endpoints that have more to do when both sides are open, such as accepting a connection.
type Readier interface {
	Ready(timeout time.Duration) error
}

// Description is what help, schema and documentation say of a workload.
type Description struct {
	Name    string                     // as in experiments and cell ids
	Summary string                     // one line
	Primary string                     // the metric that governs stopping
	Trial   func(Params) time.Duration // shortest sound trial where each thread has a CPU of its own (docs/method.md)
	Warm    float64                    // share of a trial that passes before the window opens
	Spins   func(Params) bool          // both ends keep a CPU busy while they wait
	Params  []Param
}

// Param is one parameter of a workload.
type Param struct {
	Name    string
	Default string
	Summary string                       // with unit and range
	Values  []string                     // the only ones allowed; nil where Check decides
	Check   func(string) (string, error) // returns the value as cell ids write it: a number in base units
}

// Params are a workload's parameters, every one present.
type Params map[string]string

// Size returns a parameter that holds a number of bytes, already checked.
func (p Params) Size(name string) int {
	n, _ := ParseSize(p[name])
	return n
}

// Side is which end of a pair an endpoint is.
type Side string

// The two sides.
const (
	Source Side = "source"
	Sink   Side = "sink"
)

// Spec is all that an endpoint needs to know; pure data.
type Spec struct {
	Workload   string         `json:"workload"`
	Params     Params         `json:"params"`
	Side       Side           `json:"side"`
	Pair       int            `json:"pair"`
	Local      netip.AddrPort `json:"local"`
	Remote     netip.AddrPort `json:"remote"`
	Congestion string         `json:"congestion,omitempty"` // TCP congestion control to set
	Plant      time.Duration  `json:"plant,omitempty"`      // study only: the sink spins this long before it answers a request
}

// Trial is what one trial left, of all pairs.
type Trial struct {
	Params     Params
	Window     time.Duration // from the start of the window to its close
	Length     time.Duration // from the opening to the close
	Sources    []traffic.Sample
	Sinks      []traffic.Sample
	Softirqd   time.Duration             // run time of the ksoftirqd threads during the trial, for all pairs together
	Histograms []*hdrhistogram.Histogram // latencies in ns, one per worker that recorded any
}

// Result is what a workload makes of a trial.
type Result struct {
	Metrics  map[string]float64
	PerPair  map[string][]float64
	Latency  *hdrhistogram.Histogram // merged over pairs, ns; nil where the workload measures none
	Warnings []string
	Window   time.Duration // the window that counted, where the workload chose its own; else 0
}

// Resolve completes and checks parameters. An unknown name or a value out of range is an error that lists the alternatives.
func (d Description) Resolve(given map[string]string) (Params, error) {
	p := make(Params, len(d.Params))
	for _, param := range d.Params {
		p[param.Name] = param.Default
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		i := slices.IndexFunc(d.Params, func(p Param) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("workload %s has no parameter %q (it has %s)", d.Name, name, strings.Join(d.names(), ", "))
		}
		param := d.Params[i]
		if param.Values != nil && !slices.Contains(param.Values, value) {
			return nil, fmt.Errorf("workload %s: %s=%q (want one of %s)", d.Name, name, value, strings.Join(param.Values, ", "))
		}
		if param.Check != nil {
			var err error
			if value, err = param.Check(value); err != nil {
				return nil, fmt.Errorf("workload %s: %s: %w", d.Name, name, err)
			}
		}
		p[name] = value
	}
	return p, nil
}

func (d Description) names() []string {
	names := make([]string, len(d.Params))
	for i, p := range d.Params {
		names[i] = p.Name
	}
	return names
}

// ID is the workload's part of a cell id: "udp-rr(payload=64,mode=wait)", parameters in the description's order.
func (d Description) ID(p Params) string {
	if len(d.Params) == 0 {
		return d.Name
	}
	var b strings.Builder
	for i, param := range d.Params {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(param.Name + "=" + p[param.Name])
	}
	return d.Name + "(" + b.String() + ")"
}

// Parse splits "udp-rr(payload=64,mode=spin)" into a name and the parameters given. It knows no workloads: the names are checked by
// the catalogue and [Description.Resolve].
func Parse(s string) (string, map[string]string, error) {
	name, rest, open := strings.Cut(s, "(")
	given := map[string]string{}
	if !open {
		if strings.ContainsAny(s, ")=, ") || s == "" {
			return "", nil, fmt.Errorf("workload %q: want NAME or NAME(parameter=value,…)", s)
		}
		return s, given, nil
	}
	inside, ok := strings.CutSuffix(rest, ")")
	if !ok || name == "" || strings.ContainsAny(inside, "()") {
		return "", nil, fmt.Errorf("workload %q: want NAME(parameter=value,…)", s)
	}
	for part := range strings.SplitSeq(inside, ",") {
		key, value, ok := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || value == "" {
			return "", nil, fmt.Errorf("workload %q: %q is not parameter=value", s, part)
		}
		if _, twice := given[key]; twice {
			return "", nil, fmt.Errorf("workload %q: parameter %q is given twice", s, key)
		}
		given[key] = value
	}
	return name, given, nil
}

// ParseSize reads a number of bytes written as "64", "64B", "128KiB" or "1MB".
func ParseSize(s string) (int, error) {
	number, factor := s, 1
	for _, u := range []struct {
		suffix string
		factor int
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"kB", 1000}, {"MB", 1000 * 1000}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			number, factor = rest, u.factor
			break
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > (1<<30)/factor {
		return 0, fmt.Errorf("%q is not a size (want bytes such as 64, 64B, 128KiB or 1MB)", s)
	}
	return n * factor, nil
}

// SizeBetween is a [Param] check for a number of bytes in a range.
func SizeBetween(lo, hi int) func(string) (string, error) {
	return func(s string) (string, error) {
		n, err := ParseSize(s)
		if err != nil {
			return "", err
		}
		if n < lo || n > hi {
			return "", fmt.Errorf("%q is out of range (want %d to %d bytes)", s, lo, hi)
		}
		return strconv.Itoa(n), nil
	}
}

// Merge adds histograms of the recorders' geometry into one; nil for none.
func Merge(hs []*hdrhistogram.Histogram) *hdrhistogram.Histogram {
	if len(hs) == 0 {
		return nil
	}
	sum := traffic.NewHistogram()
	for _, h := range hs {
		sum.Merge(h)
	}
	return sum
}

// PutCPU writes the run times of all threads of a trial, ksoftirqd's included, as cores kept busy, and returns them in seconds.
func (t Trial) PutCPU(metrics map[string]float64) (seconds float64) {
	busy := 0.0
	for name, side := range map[string][]traffic.Sample{"cpu_source": t.Sources, "cpu_sink": t.Sinks} {
		cores := 0.0
		for _, s := range side {
			seconds += float64(s.CPU) / 1e9
			if s.Span > 0 {
				cores += float64(s.CPU) / float64(s.Span)
			}
		}
		metrics[name] = cores
		busy += cores
	}
	seconds += t.Softirqd.Seconds()
	metrics["cpu_softirqd"] = t.Softirqd.Seconds() / t.Length.Seconds()
	metrics["cpu_busy"] = busy + metrics["cpu_softirqd"]
	return seconds
}

// Failure returns the first reason why the trial is not to be used, "" if there is none.
func (t Trial) Failure() string {
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		for i, s := range side {
			if s.Failure != "" {
				return fmt.Sprintf("pair %d: %s", i, s.Failure)
			}
		}
	}
	return ""
}

// Doubts returns what the samples say should be known, each once.
func (t Trial) Doubts() []string {
	seen := map[string]bool{}
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		for _, s := range side {
			if s.Doubt != "" {
				seen[s.Doubt] = true
			}
		}
	}
	doubts := slices.Collect(maps.Keys(seen))
	sort.Strings(doubts)
	return doubts
}
