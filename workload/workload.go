package workload

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

// Workload is one kind of traffic.
type Workload interface {
	// Describe returns the description of the workload.
	Describe() Description
	// Open opens one endpoint; see [Spec]. The calling thread must be inside the container's network namespace. The
	// sinks of a cell are opened first. An endpoint whose sink has to wait for its source also has a Ready method.
	Open(Spec) (traffic.Endpoint, error)
	// Metrics converts the samples of one trial into metrics in base units, with the names that [Metrics] and the
	// description declare.
	Metrics(Trial) Result
}

// A Reporter is a workload whose trials may have any metric that is declared, whichever part declares it.
type Reporter interface {
	// Reporting returns the workload for a catalogue in which these metrics are declared. It does not ask for them itself.
	Reporting(declared func() measure.Vocabulary) Workload
}

// Readier is implemented by endpoints that have more to do when both sides are open, such as making a connection or
// accepting it. Ready of a source comes before that of its sink, or at the same time.
type Readier interface {
	Ready(timeout time.Duration) error
}

// A Description is what help, schema and documentation show about a workload.
type Description struct {
	Name       string                   // as in experiments and cell ids
	Summary    string                   // one line
	Reproduces string                   // the figures of a paper or tool that it reproduces, in a sentence
	Primary    func(part.Params) string // the metric that governs stopping
	// shortest sound trial if each thread has a CPU of its own (docs/method.md)
	Trial func(part.Params) time.Duration
	Whole bool                   // trials must not be shorter than that, because its programs would not have ended
	Why   string                 // the reason for that length, in a sentence
	Warm  float64                // share of a trial that passes before the window opens
	Spins func(part.Params) bool // both ends keep a CPU busy while they wait
	// the kernel of the sink's machine answers: a source needs no sink
	Alone    bool
	Port     uint16 // the only port at which its sinks can listen; 0: the given one
	IPv4Only bool   // it cannot use IPv6 addresses
	Params   part.List
	// for checked values: sets parameters that follow from others, and does not change them when called again; nil:
	// there are none
	Derive func(part.Params)
	// for checked values: why the two ends, which do not trust each other by hand, cannot run it; nil: they can
	ByHand func(part.Params) error
	Refuse func(part.Params) error // for checked values: an error if they do not fit together; nil: all do
	// Programs returns the external programs that the endpoints of a side start; nil: none. Their versions are part of
	// the record. By hand they are refused.
	Programs func(part.Params, Side) []program.Needed
	// Memory returns the largest number of bytes that a sink holds while it serves one source of the same workload, for
	// checked values, in addition to what every endpoint holds; nil: 0. [Description.SinkMemory] adds the kernel's
	// memory.
	Memory func(part.Params) int64
	// Near returns names of programs and of questions for which it is the answer.
	Near    func() []part.Near
	Metrics []string // of its trials, together with CPUMetrics and DurationMetrics
	// Declares are the metrics that only this workload has; the others are in [Metrics].
	Declares []measure.Metric
}

// Needs returns the external programs that the endpoints of a side with these parameters start.
func (d Description) Needs(p part.Params, side Side) []program.Needed {
	if d.Programs == nil {
		return nil
	}
	return d.Programs(p, side)
}

const (
	// endpointMemory is the largest number of bytes that every endpoint holds: a read buffer, a datagram in each
	// direction, and durations of some quantities.
	endpointMemory = 1 << 20

	// longestMessage is the largest length of messages with varied sizes, in bytes.
	longestMessage = 1 << 20

	// ConnectionMemory is the memory of a connection in bytes: in the kernel, with what watches it (struct tcp_sock and
	// related entries in /proc/slabinfo), and in the endpoint. It does not include data in its buffers.
	ConnectionMemory = 8 << 10
)

// SinkMemory returns the largest number of bytes that the sink of one pair holds, for checked values, without data in
// socket buffers.
func (d Description) SinkMemory(p part.Params) int64 {
	n := int64(endpointMemory)
	for _, message := range []string{"payload", "response", "message"} { // the workloads' names for sent and received data
		n += 2 * int64(p.Size(message))
	}
	if _, varied := p["sizes"]; varied && Varied(p) {
		n += 2 * longestMessage
	}
	if d.Memory != nil {
		n += d.Memory(p)
	}
	return n + d.SinkSockets(p)*ConnectionMemory
}

// SinkSockets returns the largest number of sockets with data that the sink of one pair holds, for checked values.
func (d Description) SinkSockets(p part.Params) int64 {
	sockets := int64(1)
	for _, many := range []string{"flows", "connections", "videos", "players"} { // their names for connections
		sockets = max(sockets, int64(p.Count(many)))
	}
	if p.Count("clients") > 0 {
		sockets = max(sockets, mostClients(p))
	}
	return sockets
}

// mostClients is how many connections a server of clients needs: a client may have replaced a few before the server has
// noticed their end.
func mostClients(p part.Params) int64 { return 2*int64(p.Count("clients")) + 2 }

// MostClients returns how many connections a server holds, 0 for any number. It is limited if the other end is not
// trusted to make only those that the parameters say, and is not another program.
func (s Spec) MostClients() int {
	if !s.OwnClock || s.Driver != "" {
		return 0
	}
	return int(mostClients(s.Params))
}

// Side is the end of a pair to which an endpoint belongs.
type Side string

// The two sides.
const (
	Source Side = "source"
	Sink   Side = "sink"
)

// Spec describes an endpoint; it is pure data.
type Spec struct {
	Workload   string         `json:"workload"`
	Driver     string         `json:"driver,omitempty"` // the program that drives it; "": nettoll's own engine
	Params     part.Params    `json:"params"`
	Side       Side           `json:"side"`
	Pair       int            `json:"pair"`
	Local      netip.AddrPort `json:"local"`
	Remote     netip.AddrPort `json:"remote"`
	Congestion string         `json:"congestion,omitempty"` // TCP congestion control to set
	// LocalPorts and RemotePorts are the numbers of ports, starting with those of Local and Remote, of this endpoint
	// and of its peer.
	LocalPorts  int `json:"local_ports"`
	RemotePorts int `json:"remote_ports"`
	// for schedules: the same for a pair in all stacks of a generation
	Seed uint64 `json:"seed"`
	// the other end has another clock: one-way times cannot be measured
	OwnClock bool  `json:"own_clock,omitempty"`
	Stall    Stall `json:"stall,omitzero"` // study only: the sink stands still at intervals
	// study only: the sink spins this long before it answers a request
	Plant time.Duration `json:"plant,omitempty"`
}

// Stall makes a sink stand still repeatedly.
type Stall struct {
	Every time.Duration `json:"every"` // from the start of one stall to the next
	For   time.Duration `json:"for"`
}

// A Limit says what kept a figure from being higher.
type Limit string

// The limits.
const (
	BySender   Limit = "sender"   // the sink waited, and nothing was lost: the path could carry more
	ByPath     Limit = "path"     // packets were lost, or a window was full, while the sink waited
	ByReceiver Limit = "receiver" // the sink was always busy
)

// A Trial holds the samples of one trial, of all pairs.
type Trial struct {
	Params  part.Params
	Window  time.Duration // from the start of the window to its close
	Length  time.Duration // from the opening to the close
	Sources []traffic.Sample
	Sinks   []traffic.Sample
	// run time of the ksoftirqd threads during the trial, for all pairs together
	Softirqd time.Duration
	// number of the first pair in its lab: not 0 if other members of a mix have earlier pairs
	First      int
	Histograms [traffic.Quantities]*hdrhistogram.Histogram // ns, over all pairs; nil if not measured
}

// AddHistograms adds the encoded histograms of a worker to those of the trial.
func (t *Trial) AddHistograms(encoded [traffic.Quantities]string) error {
	for q, text := range encoded {
		if text == "" {
			continue
		}
		h, err := traffic.DecodeHistogram(text)
		if err != nil {
			return err
		}
		if t.Histograms[q] == nil {
			t.Histograms[q] = traffic.NewHistogram()
		}
		t.Histograms[q].Merge(h)
	}
	return nil
}

// Settled returns the trial with the window and length that an external program chose (Window and Span of its samples):
// the means over pairs, of the sources or, if those chose none, of the sinks. What a program reports about its other
// end (Foreign) is assigned to that end. A sink that existed for the whole trial of an external client counts only
// while that client's traffic flowed. A trial of nettoll's own engine is returned unchanged. Settled is called before
// [Workload.Metrics].
func (t Trial) Settled() Trial {
	t.Sources, t.Sinks = told(t.Sources, t.Sinks), told(t.Sinks, t.Sources)
	for i, s := range t.Sources {
		if i < len(t.Sinks) && s.Window > 0 && t.Sinks[i].Window == 0 && t.Sinks[i].Span >= int64(t.Length) {
			t.Sinks = slices.Clone(t.Sinks)
			t.Sinks[i].Span = min(s.Span, t.Sinks[i].Span)
		}
	}
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		var window, span int64
		for _, s := range side {
			window += s.Window
			span += s.Span
		}
		if window > 0 {
			t.Window, t.Length = time.Duration(window)/time.Duration(len(side)), time.Duration(span)/time.Duration(len(side))
			return t
		}
	}
	return t
}

// told returns the samples of one side, with what the programs at the other side report about it. Own observations have
// precedence.
func told(side, other []traffic.Sample) []traffic.Sample {
	for i := range min(len(side), len(other)) {
		if other[i].Foreign.Peer == nil {
			continue
		}
		own, said := side[i], *other[i].Foreign.Peer
		said.CPU, said.ProgramCPU, said.User, said.Waited, said.Span = own.CPU, own.ProgramCPU, own.User, own.Waited, own.Span
		said.Failure, said.Doubt, said.Foreign = own.Failure, own.Doubt, own.Foreign
		side = slices.Clone(side)
		side[i] = said
	}
	return side
}

// A Result holds the metrics and warnings of a trial.
type Result struct {
	Metrics  map[string]float64
	PerPair  map[string][]float64
	Limit    Limit // what kept the figure from being higher; "" if unknown
	Warnings []string
	Window   time.Duration // the window that counted, if the workload chose its own; otherwise 0
}

// Resolve adds defaults to the given parameters and checks them. For an unknown name or an invalid value, the error
// lists the alternatives.
func (d Description) Resolve(given map[string]string) (part.Params, error) {
	p, err := d.Params.Resolve("workload "+d.Name, given)
	if err == nil && d.Derive != nil {
		d.Derive(p)
	}
	if err != nil || d.Refuse == nil {
		return p, err
	}
	if err := d.Refuse(p); err != nil {
		return nil, fmt.Errorf("workload %s: %w", d.Name, err)
	}
	return p, nil
}

// AcrossTrust returns why a workload cannot run by hand, between ends that do not trust each other; nil if it can.
func (d Description) AcrossTrust(p part.Params) error {
	if d.ByHand != nil {
		if err := d.ByHand(p); err != nil {
			return fmt.Errorf("workload %s does not run by hand: %w", d.Name, err)
		}
	}
	if needs := append(d.Needs(p, Source), d.Needs(p, Sink)...); len(needs) > 0 {
		return fmt.Errorf("workload %s does not run by hand, because it needs %s, and neither end may start programs at "+
			"the other (use nettoll run)", d.ID(p), needs[0].Program)
	}
	return nil
}

// ID returns the workload's part of a cell id: "udp-rr(payload=64,mode=wait)", with parameters in the description's
// order.
func (d Description) ID(p part.Params) string { return d.Params.ID(d.Name, p) }

// DrivenID returns the id of the workload with a driver, as if that were its last parameter.
func (d Description) DrivenID(p part.Params, driver string) string {
	const name = "driver"
	p = maps.Clone(p)
	p[name] = driver
	return append(slices.Clone(d.Params), part.Param{Name: name}).ID(d.Name, p)
}

// minSamples is the least number of samples for a median as a metric of one trial (design, "Estimate": 100/(1−q) for q
// = 0.5). Other quantiles come from groups of blocks.
const minSamples = 200

// PutDurations writes the mean and median of the durations for which a trial has enough samples.
func (t Trial) PutDurations(metrics map[string]float64) {
	for q, h := range t.Histograms {
		if h == nil || h.TotalCount() < minSamples {
			continue
		}
		name := traffic.Quantity(q).Name()
		metrics[name+"_mean"] = h.Mean() / 1e9
		metrics[name+"_p50"] = float64(h.ValueAtQuantile(50)) / 1e9
	}
	if t.Histograms[traffic.Latency] != nil {
		return
	}
	for _, s := range t.Sources { // from external programs that report no more: the mean over pairs
		if s.Foreign.Mean > 0 {
			metrics["latency_mean"] += s.Foreign.Mean / 1e9 / float64(len(t.Sources))
		}
		if s.Foreign.Median > 0 {
			metrics["latency_p50"] += s.Foreign.Median / 1e9 / float64(len(t.Sources))
		}
	}
}

// CPUMetrics lists the metrics that [Trial.PutCPU] writes.
func CPUMetrics() []string {
	return []string{"cpu_source", "cpu_sink", "cpu_programs", "cpu_user", "cpu_softirqd", "cpu_busy"}
}

// DurationMetrics lists the metrics that [Trial.PutDurations] writes for some quantities.
func DurationMetrics(of ...traffic.Quantity) []string {
	var names []string
	for _, q := range of {
		names = append(names, q.Name()+"_mean", q.Name()+"_p50")
	}
	return names
}

// PutCPU writes the run times of all threads of a trial as cores kept busy, including ksoftirqd and programs that carry
// its packets, and returns them in seconds.
func (t Trial) PutCPU(metrics map[string]float64) (seconds float64) {
	busy, user, programs := 0.0, 0.0, 0.0
	for name, side := range map[string][]traffic.Sample{"cpu_source": t.Sources, "cpu_sink": t.Sinks} {
		cores := 0.0
		for _, s := range side {
			seconds += float64(s.CPU) / 1e9
			if s.Span > 0 {
				cores += float64(s.CPU-s.ProgramCPU) / float64(s.Span)
				programs += float64(s.ProgramCPU) / float64(s.Span)
				user += float64(s.User) / float64(s.Span)
			}
		}
		metrics[name] = cores
		busy += cores
	}
	seconds += t.Softirqd.Seconds()
	metrics["cpu_user"] = user
	metrics["cpu_softirqd"] = t.Softirqd.Seconds() / t.Length.Seconds()
	if programs > 0 { // only few networks have them
		metrics["cpu_programs"] = programs
	}
	metrics["cpu_busy"] = busy + programs + metrics["cpu_softirqd"]
	return seconds
}

// Waited returns the share of the trial for which a thread was ready to run while something else used its CPU, for the
// thread that waited longest. It is unknown if threads of external programs drive the traffic.
func (t Trial) Waited() (share float64, known bool) {
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		for _, s := range side {
			if s.Waited == traffic.Unwatched {
				return 0, false
			}
			if s.Span > 0 {
				share, known = max(share, float64(s.Waited)/float64(s.Span)), true
			}
		}
	}
	return share, known
}

// Failure returns why the trial must not be used: the failures of both ends of the first pair with one. It is "" if
// there is none.
func (t Trial) Failure() string {
	for pair := range max(len(t.Sources), len(t.Sinks)) {
		var reasons []string
		for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
			if pair < len(side) && side[pair].Failure != "" && !slices.Contains(reasons, side[pair].Failure) {
				reasons = append(reasons, side[pair].Failure)
			}
		}
		if len(reasons) > 0 {
			return fmt.Sprintf("pair %d: %s", t.First+pair, strings.Join(reasons, "; "))
		}
	}
	return ""
}

const (
	// unsentSome is the share of messages that may be due and unsent when a window closes: a larger share can change a
	// p99.9.
	unsentSome = 0.001
	unsent     = "the source fell behind; latency excludes messages it did not send: lower the rate, or use fewer pairs"
)

// Doubts returns the doubts of the samples, each once.
func (t Trial) Doubts() []string {
	seen := map[string]bool{}
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} { // a game's server also sends
		for _, s := range side {
			if float64(s.Unsent) > unsentSome*float64(s.Sent+s.Unsent) {
				seen[unsent] = true
			}
			if s.Doubt != "" {
				seen[s.Doubt] = true
			}
		}
	}
	doubts := slices.Collect(maps.Keys(seen))
	sort.Strings(doubts)
	return doubts
}
