package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"
)

// Version is the version of the record formats (field v) that this package writes, and the newest that it reads.
// Version 1 had no checksums, and no records Begin, Generation, Resume and End. Versions 1 and 2 counted generations
// from 0; Read gives their records the numbers from 1.
const Version = 3

// Record is one line of records.jsonl: Begin, Trial, Histograms, BlockFacts, Proof, Matrix, Attacks, LabRecord,
// Warning, Fact, Generation, Resume or End.
type Record interface {
	// appendJSON appends the record as one JSON object without a newline. It sets type and v, whatever the fields hold.
	appendJSON(dst []byte) ([]byte, error)
}

// Begin is the first record.
type Begin struct {
	Type string `json:"type"` // "begin"; set by Writer
	V    int    `json:"v"`
	Run  string `json:"run"` // the checksum of run.json, see [RunSum]
}

// Generation is the record at the end of a complete generation. A resumed run continues after the last one.
type Generation struct {
	Type       string  `json:"type"` // "generation"; set by Writer
	V          int     `json:"v"`
	Generation int     `json:"gen"` // from 1, as in all records and views
	Blocks     int     `json:"blocks"`
	Measured   float64 `json:"measured"` // s, spent in its blocks
	// Overhead is the time that the generation took besides its blocks, in s: building, proving and checking its labs, and
	// removing those of the generation before. It is 0 in older records.
	Overhead float64 `json:"overhead,omitempty"`
	// Deaths is the number of agents, workers and programs that died or hung, by lab.
	Deaths map[string]int `json:"deaths,omitempty"`
	// Lost holds the labs that could not be measured to the end of the generation, with the reason. They are built anew in
	// the next generation.
	Lost map[string]string `json:"lost,omitempty"`
	// Dropped holds the cells that are no longer measured since this generation, with the reason.
	Dropped map[string]string `json:"dropped,omitempty"`
}

// Resume is the record at the place where the run was resumed.
type Resume struct {
	Type  string    `json:"type"` // "resume"; set by Writer
	V     int       `json:"v"`
	At    time.Time `json:"at"`
	After string    `json:"after"` // EndInterrupted, EndFailed, or Killed
	// Generation is the number of the first generation after the record.
	Generation int `json:"gen"`
	// Blocks is the number of blocks of the incomplete generation. Their records were removed.
	Blocks int `json:"blocks"`
}

// Reasons for which a run ended. Killed is never recorded: it stands for a run without an End.
const (
	EndPrecise     = "precise"     // every cell is precise enough
	EndDecided     = "decided"     // every verdict is decided, or its cell precise enough
	EndTime        = "time"        // the time is up
	EndNothing     = "nothing"     // no cell is left to compare
	EndInterrupted = "interrupted" // the user ended it
	EndFailed      = "failed"

	Killed = "killed"
)

// End is the last record of a run that ended and was not resumed.
type End struct {
	Type        string  `json:"type"` // "end"; set by Writer
	V           int     `json:"v"`
	Why         string  `json:"why"`    // EndPrecise, EndTime, …
	Detail      string  `json:"detail"` // Why as the end of a sentence: "every cell is precise enough"
	Blocks      int     `json:"blocks"`
	Generations int     `json:"generations"` // complete ones
	Trials      int     `json:"trials"`
	Measured    float64 `json:"measured"`          // s, spent in blocks
	Resumed     int     `json:"resumed,omitempty"` // number of times
	Proving     float64 `json:"proving,omitempty"` // s, spent on proofs and audits outside blocks; 0: not known
}

// Trial is one visit to one cell within a block.
type Trial struct {
	Type       string `json:"type"` // "trial"; set by Writer
	V          int    `json:"v"`    // set by Writer
	Generation int    `json:"gen"`  // from 1
	// from 0, over all generations; all cells of a block have the same number
	Block    int     `json:"block"`
	Cell     string  `json:"cell"`
	Start    float64 `json:"start"` // s since the run began
	Duration float64 `json:"dur"`   // s, length of the window
	// by metric name, in base units; sums over pairs unless the name says otherwise
	Metrics  map[string]float64   `json:"metrics"`
	PerPair  map[string][]float64 `json:"pairs,omitempty"` // by metric name, one value per pair, base units
	Warnings []string             `json:"warn,omitempty"`  // doubts about this trial
	// the part that kept the figure from being higher: "sender", "path" or "receiver"
	Limit  string `json:"limit,omitempty"`
	Failed string `json:"failed,omitempty"` // reason; no metric of a failed trial is used
}

// Histograms is the latency distribution of one cell over a group of consecutive blocks of one generation, merged over
// pairs. A record takes about 1.5 KB with 3 significant digits. Groups of 32 blocks (or a generation, if it is shorter)
// keep the file below 50 MB per 100,000 trials. Durations other than latencies have one group for each generation. All
// cells of a block need the same groups.
type Histograms struct {
	Type       string `json:"type"` // "histogram"; set by Writer
	V          int    `json:"v"`
	Generation int    `json:"gen"`
	First      int    `json:"first"` // first block of the group
	Last       int    `json:"last"`  // last block of the group, inclusive
	Cell       string `json:"cell"`
	// the prefix of its quantiles' names: "latency" (also if empty) or "oneway_latency"
	Metric  string `json:"metric,omitempty"`
	Samples int64  `json:"samples"`
	Data    string `json:"data"` // base64 of the HdrHistogram V2 compressed encoding; values in ns
}

// BlockFacts holds facts about the machine during one block.
type BlockFacts struct {
	Type       string  `json:"type"` // "block"; set by Writer
	V          int     `json:"v"`
	Generation int     `json:"gen"`
	Block      int     `json:"block"`
	Start      float64 `json:"start"` // s since the run began
	Duration   float64 `json:"dur"`   // s
	// cores, by mode: user, nice, system, idle, iowait, irq, softirq, steal
	CPU    map[string]float64 `json:"cpu"`
	Load1  float64            `json:"load1"`            // 1-minute load average
	Others float64            `json:"others,omitempty"` // CPU use of programs that are not part of the run, in cores
	// Memory is what is in use on the machine at the end, in bytes, and Softirqs are those of the network, per second.
	// Both are 0 if nobody has read them: only nodes of a cluster are, with a monitor.
	Memory   float64 `json:"memory,omitempty"`
	Softirqs float64 `json:"softirqs,omitempty"`
	// Machines holds the same for the other machines, if hosts are on several.
	Machines []MachineLoad `json:"machines,omitempty"`
}

// MachineLoad holds the load of one machine during a block, as in [BlockFacts].
type MachineLoad struct {
	Machine  string             `json:"machine"`
	CPU      map[string]float64 `json:"cpu"`
	Load1    float64            `json:"load1"`
	Others   float64            `json:"others,omitempty"`
	Memory   float64            `json:"memory,omitempty"`
	Softirqs float64            `json:"softirqs,omitempty"`
}

// Proof is evidence from a lab that one of its claims holds: a record for each claim, before the first block of a
// generation and after the last.
type Proof struct {
	Type       string `json:"type"` // "proof"; set by Writer
	V          int    `json:"v"`
	Generation int    `json:"gen"`
	Lab        string `json:"lab"`
	// Name is the name of the claim ("passes"). Older records have none; their Claim is a sentence with all claims of the
	// lab.
	Name  string `json:"name,omitempty"`
	Claim string `json:"claim"` // a sentence without its full stop
	// When is "before" the first block, "after" the last, or "during": between all of them
	When string `json:"when"`
	// Tried is the number of tries, by family; Seen is how many of those had the expected result.
	Tried    map[string]int `json:"tried,omitempty"`
	Expected string         `json:"expected,omitempty"` // "no answer"
	Seen     map[string]int `json:"seen,omitempty"`
	OK       bool           `json:"ok"`
	Detail   string         `json:"detail,omitempty"` // the first failure, and how many more there are
	// Untold says why it cannot be told whether the claim held, although nothing was seen against it (OK is true).
	Untold string `json:"untold,omitempty"`
	// Touched is the first and the last block during which something was otherwise that was found between blocks. It
	// happened between the times Since and Until, in s since the run began.
	Touched []int   `json:"touched,omitempty"`
	Since   float64 `json:"since,omitempty"`
	Until   float64 `json:"until,omitempty"`
}

// LabRecord holds the cost of building a lab and of changing the rules in it. Each lab has one for each generation, and
// another one if it had to be built once more. A lab with containers that have workers also has one with what they used
// in the trials of a generation.
type LabRecord struct {
	Type       string `json:"type"` // "lab"; set by Writer
	V          int    `json:"v"`
	Generation int    `json:"gen"`
	Lab        string `json:"lab"`
	// Rebuilt is true if the lab replaces one in which a program had died. It is not a second observation of its
	// generation: it has the same seed, and it was built alone while other labs were already up. So its figures are
	// shown separately and do not count among those of the generation.
	Rebuilt bool               `json:"rebuilt,omitempty"`
	Metrics map[string]float64 `json:"metrics"` // by metric name, base units: setup_time, rules_load_time, …
	// Implementations says who did the work, by kind of part, as far as building the lab showed it.
	Implementations map[string]string `json:"implementations,omitempty"`
	// Facts holds the properties of the links of the first pair.
	Facts map[string]string `json:"facts,omitempty"`
	// Containers has the metrics of each container with a worker in the trials of a generation. Metrics then has their
	// sums, or the largest.
	Containers []ContainerMetrics `json:"containers,omitempty"`
	// Rights are those of containers with processes of their own: one entry if all have the same.
	Rights []Rights `json:"rights,omitempty"`
	// Passed is what the devices of the hosts have counted in the trials of a generation, if somebody has read them.
	Passed []Passed `json:"passed,omitempty"`
	// Heard is what the hosts have got from each other in a proof, if somebody has listened.
	Heard []Heard `json:"heard,omitempty"`
}

// ContainerMetrics are the metrics of one container of a lab.
type ContainerMetrics struct {
	Host    string             `json:"host"` // "host1"
	Name    string             `json:"name"` // "src0"
	Metrics map[string]float64 `json:"metrics"`
}

// Heard is what a host has got from others in a proof, in frames with the same outermost headers.
type Heard struct {
	Host    string `json:"host"`    // "host1"
	Machine string `json:"machine"` // its node
	When    string `json:"when"`    // as in [Proof]
	Device  string `json:"device"`
	Wire    string `json:"wire"` // in plain words: "UDP to port 4789"
	Frames  int    `json:"frames"`
	Marked  int    `json:"marked"` // of those, frames in which what a container sent can be read
}

// Passed is what the devices of a host have counted in those trials of a lab whose workloads know how many packets they
// take.
type Passed struct {
	Host    string `json:"host"`    // "host1"
	Machine string `json:"machine"` // its node
	Trials  int    `json:"trials"`
	// Left and Entered are the packets that are known to have left the containers of the host at least, and to have
	// arrived in them.
	Left    int64 `json:"left"`
	Entered int64 `json:"entered"`
	// Across is whether all of them come from another host, or go there. Otherwise all stay on this one.
	Across  bool     `json:"across"`
	Devices []Device `json:"devices"`
}

// Device is what a network device of a host has counted, in packets and bytes.
type Device struct {
	Name string `json:"name"`
	// Container is the only container to which it leads ("src0"); "" for other devices. Left and Entered are then those
	// of that container.
	Container     string `json:"container,omitempty"`
	Left          int64  `json:"left,omitempty"`
	Entered       int64  `json:"entered,omitempty"`
	Received      int64  `json:"received"`
	Sent          int64  `json:"sent"`
	ReceivedBytes int64  `json:"received_bytes"`
	SentBytes     int64  `json:"sent_bytes"`
	Dropped       int64  `json:"dropped,omitempty"`
}

// Warning is a doubt that travels with the results.
type Warning struct {
	Type string `json:"type"` // "warning"; set by Writer
	V    int    `json:"v"`
	Cell string `json:"cell,omitempty"`
	Lab  string `json:"lab,omitempty"`
	Text string `json:"text"`
	// Machine is true if the warning is about the machine during the whole run. Every view begins with it.
	Machine bool `json:"machine,omitempty"`
}

// Fact is something known about the run that has no record type of its own.
type Fact struct {
	Type  string `json:"type"` // "fact"; set by Writer
	V     int    `json:"v"`
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// Writer writes records, one line each, and their checksums.
type Writer struct {
	w   io.Writer
	buf []byte
	sum chain
}

// NewWriter returns a Writer on w. Each record becomes exactly one call of w.Write, which ends in a newline. The caller
// buffers and syncs.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, sum: newChain(nil)} }

// NewWriterAt returns a Writer that continues at a place of a file. The caller must have removed everything after it.
func NewWriterAt(w io.Writer, at Place) *Writer { return &Writer{w: w, sum: newChain(at.sum)} }

// Write writes one record. Numbers of trials and blocks keep 6 significant digits, far below any noise, and times since
// the run began 0.1 ms, so that 100,000 single-pair trials stay below 50 MB. A metric that is not finite is left out
// and named among the warnings of its trial. Write is not safe for concurrent use.
func (w *Writer) Write(r Record) error {
	var err error
	if w.buf, err = r.appendJSON(w.buf[:0]); err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	w.buf = append(w.buf, '\n')
	w.sum.add(w.buf)
	return w.put()
}

// Sum writes the checksum of the records since the last one, if there are any: see [chain]. Read ignores records that
// no checksum follows.
func (w *Writer) Sum() error {
	if w.sum.lines == 0 {
		return nil
	}
	w.buf = append(w.sum.line(w.buf[:0]), '\n')
	w.sum = newChain(w.buf)
	return w.put()
}

func (w *Writer) put() error {
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

const digits = 6 // significant digits of numbers in records

func (t Trial) appendJSON(b []byte) ([]byte, error) {
	b = head(b, "trial")
	b = integer(b, "gen", t.Generation)
	b = integer(b, "block", t.Block)
	b = text(b, "cell", t.Cell)
	b = seconds(b, "start", t.Start)
	b = number(b, "dur", t.Duration)
	warnings := t.Warnings
	b, bad := numbers(b, "metrics", t.Metrics)
	for _, name := range bad {
		warnings = append(slices.Clip(warnings), fmt.Sprintf("metric %q was not a finite number and is left out", name))
	}
	if len(t.PerPair) > 0 {
		b = key(b, "pairs")
		b = append(b, '{')
		for i, name := range sortedKeys(t.PerPair) {
			if i > 0 {
				b = append(b, ',')
			}
			b = quote(b, name)
			b = append(b, ':', '[')
			for j, x := range t.PerPair[name] {
				if j > 0 {
					b = append(b, ',')
				}
				if !finite(x) {
					b = append(b, '0')
					warnings = append(slices.Clip(warnings),
						fmt.Sprintf("metric %q of pair %d was not a finite number; written as 0", name, j))
					continue
				}
				b = appendNumber(b, x)
			}
			b = append(b, ']')
		}
		b = append(b, '}')
	}
	if len(warnings) > 0 {
		b = key(b, "warn")
		b = append(b, '[')
		for i, s := range warnings {
			if i > 0 {
				b = append(b, ',')
			}
			b = quote(b, s)
		}
		b = append(b, ']')
	}
	if t.Limit != "" {
		b = text(b, "limit", t.Limit)
	}
	if t.Failed != "" {
		b = text(b, "failed", t.Failed)
	}
	return append(b, '}'), nil
}

func (h Histograms) appendJSON(b []byte) ([]byte, error) {
	b = head(b, "histogram")
	b = integer(b, "gen", h.Generation)
	b = integer(b, "first", h.First)
	b = integer(b, "last", h.Last)
	b = text(b, "cell", h.Cell)
	if h.Metric != "" {
		b = text(b, "metric", h.Metric)
	}
	b = key(b, "samples")
	b = strconv.AppendInt(b, h.Samples, 10)
	b = text(b, "data", h.Data)
	return append(b, '}'), nil
}

func (f BlockFacts) appendJSON(b []byte) ([]byte, error) {
	b = head(b, "block")
	b = integer(b, "gen", f.Generation)
	b = integer(b, "block", f.Block)
	b = seconds(b, "start", f.Start)
	b = number(b, "dur", f.Duration)
	b, bad := numbers(b, "cpu", f.CPU)
	if len(bad) > 0 {
		return b, fmt.Errorf("block %d: cpu mode %q is not a finite number", f.Block, bad[0])
	}
	b = number(b, "load1", f.Load1)
	if f.Others > 0 {
		b = number(b, "others", f.Others)
	}
	if f.Memory > 0 {
		b = number(b, "memory", f.Memory)
	}
	if f.Softirqs > 0 {
		b = number(b, "softirqs", f.Softirqs)
	}
	if len(f.Machines) > 0 {
		machines, err := json.Marshal(f.Machines)
		if err != nil {
			return b, fmt.Errorf("block %d: other machines: %w", f.Block, err)
		}
		b = append(key(b, "machines"), machines...)
	}
	return append(b, '}'), nil
}

func (x Begin) appendJSON(b []byte) ([]byte, error) {
	x.Type, x.V = "begin", Version
	return appendAny(b, x)
}

func (g Generation) appendJSON(b []byte) ([]byte, error) {
	g.Type, g.V = "generation", Version
	return appendAny(b, g)
}

func (r Resume) appendJSON(b []byte) ([]byte, error) {
	r.Type, r.V = "resume", Version
	return appendAny(b, r)
}

func (e End) appendJSON(b []byte) ([]byte, error) {
	e.Type, e.V = "end", Version
	return appendAny(b, e)
}

func (p Proof) appendJSON(b []byte) ([]byte, error) {
	p.Type, p.V = "proof", Version
	return appendAny(b, p)
}

func (l LabRecord) appendJSON(b []byte) ([]byte, error) {
	l.Type, l.V = "lab", Version
	return appendAny(b, l)
}

func (w Warning) appendJSON(b []byte) ([]byte, error) {
	w.Type, w.V = "warning", Version
	return appendAny(b, w)
}

func (f Fact) appendJSON(b []byte) ([]byte, error) {
	f.Type, f.V = "fact", Version
	return appendAny(b, f)
}

func appendAny(b []byte, v any) ([]byte, error) {
	line, err := json.Marshal(v) // json.Marshal writes no newline
	return append(b, line...), err
}

func head(b []byte, kind string) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","v":`...)
	return strconv.AppendInt(b, Version, 10)
}

func key(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func text(b []byte, name, value string) []byte { return quote(key(b, name), value) }

func integer(b []byte, name string, n int) []byte {
	return strconv.AppendInt(key(b, name), int64(n), 10)
}

// number appends a field; a value that is not finite is left out.
func number(b []byte, name string, x float64) []byte {
	if !finite(x) {
		return b
	}
	return appendNumber(key(b, name), x)
}

// seconds appends a field with 0.1 ms; a value that is not finite is left out.
func seconds(b []byte, name string, x float64) []byte {
	if !finite(x) {
		return b
	}
	return strconv.AppendFloat(key(b, name), x, 'f', 4, 64)
}

// numbers appends a map of numbers in the order of their names and returns the names of those that were not finite.
func numbers(b []byte, name string, m map[string]float64) ([]byte, []string) {
	b = append(key(b, name), '{')
	var bad []string
	first := true
	for _, k := range sortedKeys(m) {
		if !finite(m[k]) {
			bad = append(bad, k)
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(quote(b, k), ':')
		b = appendNumber(b, m[k])
	}
	return append(b, '}'), bad
}

func appendNumber(b []byte, x float64) []byte {
	if x == math.Trunc(x) && math.Abs(x) < 1e6 {
		return strconv.AppendInt(b, int64(x), 10)
	}
	return strconv.AppendFloat(b, x, 'g', digits, 64)
}

func quote(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			q, _ := json.Marshal(s) // encoding a string cannot fail
			return append(b, q...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// ErrVersion is wrapped by errors about a file that a newer nettoll wrote.
var ErrVersion = errors.New("written by a newer nettoll")
