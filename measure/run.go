package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"
)

// Run is run.json: what was asked for and where it ran.
type Run struct {
	V          int               `json:"v"`
	Name       string            `json:"name"`
	Suite      string            `json:"suite,omitempty"` // whose experiment it is; what it makes of a paper's figures and claims is in its reports
	Started    time.Time         `json:"started"`
	Source     string            `json:"source,omitempty"`     // the experiment as given: YAML
	Experiment json.RawMessage   `json:"experiment,omitempty"` // as resolved: every value present
	Design     Design            `json:"design"`
	Cells      []Cell            `json:"cells"`
	Versions   map[string]string `json:"versions,omitempty"`
	Facts      map[string]any    `json:"facts,omitempty"`
}

// Design is how precisely a run was to measure.
type Design struct {
	Precision    float64            `json:"precision"`   // share: wanted half-width of the 95 % interval of a primary metric's ratio (0.02 = 2 %)
	Time         float64            `json:"time"`        // s of measuring allowed
	Generations  int                `json:"generations"` // before the first look, and between looks
	Seed         uint64             `json:"seed"`
	TrialSeconds map[string]float64 `json:"trial_seconds,omitempty"` // s, by cell id
}

// Cell is one stack × placement × pairs × family × affinity × workload.
type Cell struct {
	ID             string            `json:"id"`
	Baseline       string            `json:"baseline,omitempty"` // id of its baseline cell; empty for the baseline itself
	Twin           bool              `json:"twin,omitempty"`     // the baseline a second time; Baseline then names the first
	Stack          string            `json:"stack,omitempty"`    // what the experiment calls it; empty for what its factors make
	Group          string            `json:"group"`              // workload|placement|pairs|family|affinity: cells of one group share baseline, twin and floor
	Network        string            `json:"network"`
	Filter         string            `json:"filter"`
	Tunnel         string            `json:"tunnel"`
	Encryption     string            `json:"encryption"`
	Runtime        string            `json:"runtime"`
	Placement      string            `json:"placement"`
	Hosts          int               `json:"hosts,omitempty"` // of its lab
	Pairs          int               `json:"pairs"`
	Family         string            `json:"family"`
	Affinity       string            `json:"affinity"`
	Workload       string            `json:"workload"`
	Params         map[string]string `json:"params,omitempty"`         // payload, mode, …
	Mix            []string          `json:"mix,omitempty"`            // the members of the mix that the cell is one of, itself among them: "udp-rr(payload=64,mode=wait)*3"
	LabPairs       int               `json:"lab_pairs,omitempty"`      // of all members of the mix together, while Pairs are the cell's own
	Primary        string            `json:"primary"`                  // the metric that governs stopping
	Probe          string            `json:"probe,omitempty"`          // what is switched on during its trials: "softirq"; they do not govern stopping
	Unprobed       string            `json:"unprobed,omitempty"`       // with a probe: id of the same cell without
	Implementation map[string]string `json:"implementation,omitempty"` // by kind of part: kernel, ebpf, ovs, userspace
	Lab            string            `json:"lab,omitempty"`            // id of its lab, as in lab records
	Enforced       string            `json:"enforced,omitempty"`       // where its filter stands, a sentence's end: "in the host's forward path"
	Defaults       map[string]string `json:"defaults,omitempty"`       // of its network and filter: parameters that are numbers and, having their default, are in no id: rules 0
}

// Governs says whether the cell's primary metric has a part in when the run stops: it is compared with a baseline, and neither a twin nor probed.
func (c *Cell) Governs() bool { return c.Baseline != "" && !c.Twin && c.Probe == "" }

// Tell gives the cells who did the work of their parts, where that was found out when their labs were built.
func (r *Run) Tell(labs []Lab) {
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
