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

// Run is run.json: what was asked for and where it ran.
type Run struct {
	V    int    `json:"v"`
	Name string `json:"name"`
	// whose experiment it is; what it makes of a paper's figures and claims is in its reports
	Suite      string          `json:"suite,omitempty"`
	Started    time.Time       `json:"started"`
	Source     string          `json:"source,omitempty"`     // the experiment as given: YAML
	Experiment json.RawMessage `json:"experiment,omitempty"` // as resolved: every value present
	Design     Design          `json:"design"`
	Cells      []Cell          `json:"cells"`
	// what views say of the probe of its probed cells; see [Run.Probed]
	Probe    *Probe            `json:"probe,omitempty"`
	Metrics  []Metric          `json:"metrics,omitempty"` // that its records may hold, for views; see [Run.Vocabulary]
	Versions map[string]string `json:"versions,omitempty"`
	Facts    map[string]any    `json:"facts,omitempty"`
}

// Design is how precisely a run was to measure.
type Design struct {
	// share: wanted half-width of the 95 % interval of a primary metric's ratio (0.02 = 2 %)
	Precision    float64            `json:"precision"`
	Time         float64            `json:"time"`        // s of measuring allowed
	Generations  int                `json:"generations"` // before the first look, and between looks
	Seed         uint64             `json:"seed"`
	TrialSeconds map[string]float64 `json:"trial_seconds,omitempty"` // s, by cell id
}

// Cell is one stack × placement × pairs × family × affinity × workload.
type Cell struct {
	ID       string `json:"id"`
	Baseline string `json:"baseline,omitempty"` // id of its baseline cell; empty for the baseline itself
	// the baseline a second time; Baseline then names the first
	Twin bool `json:"twin,omitempty"`
	// what its stack is called in ids: "bridge+nftables(rules=10)", or the name that the experiment gives it
	Stack string `json:"stack,omitempty"`
	Label string `json:"label,omitempty"` // what reports call it: "loopback" for host on one host
	// workload|placement|pairs|family|affinity: cells of one group share baseline, twin and floor
	Group string `json:"group"`
	// of its stack: one of each kind, in the order of the kinds
	Parts     []Part            `json:"parts,omitempty"`
	Placement string            `json:"placement"`
	Hosts     int               `json:"hosts,omitempty"` // of its lab
	Pairs     int               `json:"pairs"`
	Family    string            `json:"family"`
	Affinity  string            `json:"affinity"`
	Workload  string            `json:"workload"`
	Params    map[string]string `json:"params,omitempty"` // payload, mode, …
	// the members of the mix that the cell is one of, itself among them: "udp-rr(payload=64,mode=wait)*3"
	Mix []string `json:"mix,omitempty"`
	// of all members of the mix together, while Pairs are the cell's own
	LabPairs int    `json:"lab_pairs,omitempty"`
	Primary  string `json:"primary"` // the metric that governs stopping
	// what is switched on during its trials: "softirq"; they do not govern stopping
	Probe          string            `json:"probe,omitempty"`
	Unprobed       string            `json:"unprobed,omitempty"`       // with a probe: id of the same cell without
	Implementation map[string]string `json:"implementation,omitempty"` // by kind of part: kernel, ebpf, ovs, userspace
	Lab            string            `json:"lab,omitempty"`            // id of its lab, as in lab records
	// where its filter stands, a sentence's end: "in the host's forward path"
	Enforced string `json:"enforced,omitempty"`
}

// Part is the part of one kind that a stack has.
type Part struct {
	Kind string `json:"kind"` // "filter"
	Name string `json:"name"` // "nftables"; "none"
	// with the parameters that do not have their defaults: "nftables(rules=10)"
	ID      string            `json:"id"`
	Params  map[string]string `json:"params,omitempty"`  // all of them
	Default []string          `json:"default,omitempty"` // names of those that have their defaults
	// as reports begin it in the cell's label, with what joins it to the part before: "+nftables"; "" if it is left out
	// there
	Label string `json:"label,omitempty"`
}

// Part returns the cell's part of a kind as in ids, "" if the record does not say.
func (c *Cell) Part(kind string) string {
	for _, p := range c.Parts {
		if p.Kind == kind {
			return p.ID
		}
	}
	return ""
}

// Kinds returns the kinds of parts that the run's stacks have, in their order.
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

// plainCell is a cell without methods.
type plainCell Cell

// MarshalJSON writes the cell with a key for each kind, see [WithParts].
func (c Cell) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(plainCell(c))
	if err != nil {
		return nil, err
	}
	return WithParts(b, c.Parts)
}

// WithParts adds a key for each kind, with the part's id, to an encoded object: {…, "network": "bridge", "filter":
// "none", "placement": …}. They stand before its key "placement".
func WithParts(object []byte, parts []Part) ([]byte, error) {
	const next = `,"placement":` // never inside a string, where quotes have a backslash
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

// UnmarshalJSON reads the cell, also one that was recorded before cells had parts.
func (c *Cell) UnmarshalJSON(b []byte) error {
	*c = Cell{}
	if err := json.Unmarshal(b, (*plainCell)(c)); err != nil {
		return err
	}
	if c.Parts != nil {
		return nil
	}
	var old oldCell
	if err := json.Unmarshal(b, &old); err != nil {
		return err
	}
	old.upgrade(c)
	return nil
}

// Governs says whether the cell's primary metric has a part in when the run stops: it is compared with a baseline, and
// neither a twin nor probed.
func (c *Cell) Governs() bool { return c.Baseline != "" && !c.Twin && c.Probe == "" }

// Tell gives the cells who did the work of their parts, where that was found out when their labs were built.
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

// Probe is what views say of a probe and its figures.
type Probe struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`    // of its section
	Switches string   `json:"switches"` // what is switched on during probed trials, as the end of a sentence
	Meaning  string   `json:"meaning"`  // what the figures are: sentences, the last without its full stop
	Metrics  []string `json:"metrics"`  // that it adds, in the order of columns
	Columns  []string `json:"columns"`  // their headings
}

// Probed returns what views say of the run's probe: what run.json says, or else what holds of runs that had no words of
// their own, whose only probe was softirq.
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

// ReadRun reads run.json. Unknown fields are tolerated; a newer version is an error that wraps ErrVersion.
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
