package measure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Run is run.json: the request, and the machine it ran on.
type Run struct {
	V    int    `json:"v"`
	Name string `json:"name"`
	// the suite's name; reports then show its figures and claims
	Suite      string          `json:"suite,omitempty"`
	Started    time.Time       `json:"started"`
	Source     string          `json:"source,omitempty"`     // the experiment as given: YAML
	Experiment json.RawMessage `json:"experiment,omitempty"` // as resolved: every value present
	Design     Design          `json:"design"`
	Cells      []Cell          `json:"cells"`
	// the texts that views show about the probe; see [Run.Probed]
	Probe    *Probe            `json:"probe,omitempty"`
	Metrics  []Metric          `json:"metrics,omitempty"` // metrics that its records may hold; see [Run.Vocabulary]
	Versions map[string]string `json:"versions,omitempty"`
	// Facts are about the run, and about the machine of host 1.
	Facts map[string]any `json:"facts,omitempty"`
	// Machines holds the facts about the other machines, if hosts are on several. The fact "hosts" then has those of the
	// first.
	Machines []MachineFacts `json:"machines,omitempty"`
	// Standing says that the hosts stand without nettoll, which can build no lab there to look at.
	Standing bool `json:"standing,omitempty"`
}

// MachineFacts holds the facts about one machine, as in [Run].
type MachineFacts struct {
	Machine string         `json:"machine"`
	Hosts   []string       `json:"hosts"` // that are on it: "host2"
	Facts   map[string]any `json:"facts"`
}

// FactKeys returns the keys of the facts about the run and about all machines, sorted.
func (r Run) FactKeys() []string {
	keys := slices.Collect(maps.Keys(r.Facts))
	for _, m := range r.Machines {
		keys = slices.AppendSeq(keys, maps.Keys(m.Facts))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Differing returns the other machines about which a fact is known that differs from the one in Facts.
func (r Run) Differing(key string) []MachineFacts {
	var list []MachineFacts
	for _, m := range r.Machines {
		if x, known := m.Facts[key]; known && plainly(x) != plainly(r.Facts[key]) {
			list = append(list, m)
		}
	}
	return list
}

// Design says how precisely a run is to measure.
type Design struct {
	// share: wanted half-width of the 95 % interval of a primary metric's ratio (0.02 = 2 %)
	Precision float64 `json:"precision"`
	// cells leave when their verdicts are decided, too, or the claims of a suite
	Decided bool `json:"decided,omitempty"`
	// share by which two stacks may differ and still count as equal; 0 if the run has no margin of its own: see
	// [Design.Equal]
	Margin float64 `json:"margin,omitempty"`
	// share of a trial for which other programs may have the CPU before its block is set aside; 0: none is
	Spoiled      float64            `json:"spoiled,omitempty"`
	Time         float64            `json:"time"`        // s of measuring allowed
	Generations  int                `json:"generations"` // before the first look, and between looks
	Seed         uint64             `json:"seed"`
	TrialSeconds map[string]float64 `json:"trial_seconds,omitempty"` // s, by cell id
}

// leastMargin is the smallest margin of a run that does not ask for one, a share.
const leastMargin = 0.05

// Equal returns the margin of the run: the share by which two stacks may differ and still count as equal, or a number
// in the metric's unit if it is compared by difference. It is the margin that the run asked for, or else the larger of
// 5 % and twice the precision: an equal cell that left at the precision has an interval of twice that width.
func (d Design) Equal() float64 {
	if d.Margin > 0 {
		return d.Margin
	}
	return max(leastMargin, 2*d.Precision)
}

// Cell is one stack × placement × pairs × family × affinity × workload.
type Cell struct {
	ID       string `json:"id"`
	Baseline string `json:"baseline,omitempty"` // id of its baseline cell; empty for the baseline itself
	// Twin is true if the cell is the baseline a second time. Baseline then names the first.
	Twin bool `json:"twin,omitempty"`
	// the stack's name in ids: "bridge+nftables(rules=10)", or the name that the experiment gives it
	Stack string `json:"stack,omitempty"`
	Label string `json:"label,omitempty"` // its name in reports: "loopback" for host on one host
	// workload|placement|pairs|family|affinity: cells of one group share baseline, twin and floor
	Group string `json:"group"`
	// the parts of its stack: one of each kind, in the order of the kinds
	Parts     []Part `json:"parts,omitempty"`
	Placement string `json:"placement"`
	Hosts     int    `json:"hosts,omitempty"` // of its lab
	Pairs     int    `json:"pairs"`
	Family    string `json:"family"`
	Affinity  string `json:"affinity"`
	// whether the CPUs slept when they had nothing to do, "awake" or "deep"; empty in records from before it was known,
	// when they did
	Idle string `json:"idle,omitempty"`
	// several of its threads run on one CPU and wait for each other there
	SharesCPUs bool              `json:"shares_cpus,omitempty"`
	Workload   string            `json:"workload"`
	Params     map[string]string `json:"params,omitempty"` // payload, mode, …
	// names of the parameters that its id leaves out: those that have their default, and those that are too long. It is
	// empty, not nil, if the id has them all
	Unnamed []string `json:"unnamed,omitzero"`
	// the members of the cell's mix, itself included: "udp-rr(payload=64,mode=wait)*3"
	Mix []string `json:"mix,omitempty"`
	// the other members of the mix, without their shares: "tcp-stream(message=131072)"
	Others []string `json:"others,omitempty"`
	// pairs of all members of the mix together; Pairs is the cell's own
	LabPairs int `json:"lab_pairs,omitempty"`
	// for a member of a mix that is measured alone, on the same pairs of the same lab: id of the cell in the mix. Such
	// cells do not govern stopping
	Alone   string `json:"alone,omitempty"`
	Primary string `json:"primary"` // the metric that governs stopping
	// the probe that is on during its trials ("softirq"); such cells do not govern stopping
	Probe          string            `json:"probe,omitempty"`
	Unprobed       string            `json:"unprobed,omitempty"`       // if it has a probe: id of the same cell without it
	Implementation map[string]string `json:"implementation,omitempty"` // by kind of part: kernel, ebpf, ovs, userspace
	Lab            string            `json:"lab,omitempty"`            // id of its lab, as in lab records
	// the place of its lab among those of the same stack: "same-host/1"
	Place string `json:"place,omitempty"`
	// the place where its filter stands, as the end of a sentence: "in the host's forward path"
	Enforced string `json:"enforced,omitempty"`
}

// Part is the part of one kind in a stack.
type Part struct {
	Kind string `json:"kind"` // "filter"
	Name string `json:"name"` // "nftables"; "none"
	// the name with those parameters that differ from their defaults: "nftables(rules=10)"
	ID      string            `json:"id"`
	Params  map[string]string `json:"params,omitempty"`  // all of them
	Default []string          `json:"default,omitempty"` // names of those that have their defaults
	// its piece of the cell's label in reports, with the sign that joins it to the part before: "+nftables"; "" if left
	// out
	Label string `json:"label,omitempty"`
}

// Part returns the id of the cell's part of a kind; "" if the record has none.
func (c *Cell) Part(kind string) string {
	for _, p := range c.Parts {
		if p.Kind == kind {
			return p.ID
		}
	}
	return ""
}

// Kinds returns the kinds of parts of the run's stacks, in their order.
func (r *Run) Kinds() []string {
	var kinds []string
	for i := range r.Cells {
		for _, p := range r.Cells[i].Parts {
			if !slices.Contains(kinds, p.Kind) {
				kinds = append(kinds, p.Kind)
			}
		}
	}
	return kinds
}

// plainCell is a Cell without its methods, so that encoding it does not call them.
type plainCell Cell

// MarshalJSON writes the cell with a key for each kind: see [WithParts].
func (c Cell) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(plainCell(c))
	if err != nil {
		return nil, err
	}
	return WithParts(b, c.Parts)
}

// WithParts adds a key for each kind, with the part's id, to an encoded object: {…, "network": "bridge", "filter":
// "none", "placement": …}. The keys come before its key "placement". An object without that key is returned unchanged.
func WithParts(object []byte, parts []Part) ([]byte, error) {
	const next = `,"placement":` // never inside a string, which escapes quotes
	at := bytes.Index(object, []byte(next))
	if at < 0 {
		return object, nil
	}
	var keys []byte
	for _, p := range parts {
		kind, err := json.Marshal(p.Kind)
		if err != nil {
			return nil, err
		}
		id, err := json.Marshal(p.ID)
		if err != nil {
			return nil, err
		}
		keys = slices.Concat(keys, []byte{','}, kind, []byte{':'}, id)
	}
	return slices.Concat(object[:at], keys, object[at:]), nil
}

// UnmarshalJSON reads a cell, including one that was recorded before cells had parts, or said what their ids say.
func (c *Cell) UnmarshalJSON(b []byte) error {
	*c = Cell{}
	if err := json.Unmarshal(b, (*plainCell)(c)); err != nil {
		return err
	}
	if c.Parts == nil {
		var old oldCell
		if err := json.Unmarshal(b, &old); err != nil {
			return err
		}
		old.upgrade(c)
	}
	c.readID()
	return nil
}

// Governs reports whether the cell's primary metric helps to decide when the run stops. The cell is compared with a
// baseline, and is neither a twin, nor probed, nor a member of a mix alone.
func (c *Cell) Governs() bool { return c.Baseline != "" && !c.Twin && c.Probe == "" && c.Alone == "" }

// Tell copies the implementations from the lab records to the cells of these labs.
func (r *Run) Tell(labs []LabRecord) {
	for _, l := range labs {
		if len(l.Implementations) == 0 {
			continue
		}
		for i := range r.Cells {
			if c := &r.Cells[i]; c.Lab == l.Lab {
				who := maps.Clone(c.Implementation)
				if who == nil {
					who = map[string]string{}
				}
				maps.Copy(who, l.Implementations)
				c.Implementation = who
			}
		}
	}
}

// Probe holds the texts of views about a probe, and its metrics.
type Probe struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`    // of its section
	Switches string   `json:"switches"` // the change during probed trials, as the end of a sentence
	Meaning  string   `json:"meaning"`  // explanation of the figures: sentences, the last one without its full stop
	Metrics  []string `json:"metrics"`  // metrics that it adds, in the order of columns
	Columns  []string `json:"columns"`  // their headings
}

// Probed returns the texts of views about the run's probe: those of run.json or, for older runs without such texts,
// those of softirq, which was the only probe then.
func (r *Run) Probed() Probe {
	if r.Probe != nil {
		return *r.Probe
	}
	return version2Probe(r.Facts)
}

// WriteRun writes run.json, indented, with v set.
func WriteRun(w io.Writer, run Run) error {
	run.V = Version
	b, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return fmt.Errorf("encode run: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write run: %w", err)
	}
	return nil
}

// ReadRun reads run.json. Unknown fields are ignored. The error wraps [ErrVersion] if a newer nettoll wrote it.
func ReadRun(r io.Reader) (Run, error) {
	var run Run
	if err := json.NewDecoder(r).Decode(&run); err != nil {
		return Run{}, fmt.Errorf("read run: %w", err)
	}
	if run.V > Version {
		return Run{}, fmt.Errorf("read run: version %d, this nettoll knows %d: %w", run.V, Version, ErrVersion)
	}
	return run, nil
}
