package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
)

// Forecast describes what a run will take, and how precise it will be.
type Forecast struct {
	Labs        int           `json:"labs"`
	Hosts       int           `json:"hosts"`               // of all labs, including the namespaces of their underlays
	Containers  int           `json:"containers"`          // of all labs
	Block       time.Duration `json:"block_ns"`            // one pass over all cells
	Probed      time.Duration `json:"probed_ns,omitempty"` // its part for the cells with a probe
	Blocks      int           `json:"blocks"`
	Generations int           `json:"generations"`
	Measuring   time.Duration `json:"measuring_ns"`
	Building    time.Duration `json:"building_ns"` // of all generations, including removal
	Proving     time.Duration `json:"proving_ns"`  // who reaches whom, in all labs and generations, at most
	Attacking   time.Duration `json:"attacking_ns,omitempty"`
	Memory      int64         `json:"memory"` // bytes
	// standard deviation of a ratio's logarithm between generations, as assumed below
	Spread    float64 `json:"spread"`
	HalfWidth float64 `json:"half_width"` // share: expected half-width of the 95 % interval of a ratio when the time is up
	// of measuring that the requested precision is expected to take; 0: more than a day
	Enough  time.Duration `json:"enough_ns"`
	Omitted []Omission    `json:"omitted"`
}

// Costs of a run: rounded figures of the reference machine (make bench measures them). They are estimates.
const (
	// DefaultSpread is the standard deviation of log ratios between generations if there is no pilot: runs of the
	// default experiment show 1 to 3 %.
	DefaultSpread = 0.03

	hostTime      = 55 * time.Millisecond // to start a host's processes, apply and verify its plan, prove it, and end them
	containerTime = 1500 * time.Microsecond
	turnTime      = 150 * time.Microsecond // dead time of a turn
	callTime      = 7 * time.Millisecond   // the same for each pair of a lab, where turns pass by calls
	// to switch the probe on and off: the kernel patches its own code, on every CPU
	switchTime      = 10 * time.Millisecond
	attackEach      = 500 * time.Millisecond // an attack in both families
	wireEach        = 3 * time.Second        // the same from the wire
	hostMemory      = 3 << 20                // bytes: PID 1 and agent
	workerMemory    = 3 << 20                // bytes
	endpointMemory  = 150 << 10              // bytes: sockets and samples of one cell in one container
	containerMemory = 400 << 10              // bytes: namespace and links of a container, in the kernel
	baseMemory      = 20 << 20               // bytes: the controller
)

// attackTime is about how long the attacks on all labs take, with those on a control of each.
func (r *Resolved) attackTime() time.Duration {
	if len(r.Experiment.Proof.Attacks) == 0 {
		return 0
	}
	var sum time.Duration
	for i, l := range r.Labs {
		if r.Twin(i) {
			continue
		}
		for _, a := range r.Experiment.Proof.Attacks {
			each := attackEach
			if slices.Contains(threat.OnWire(), a) {
				if each = wireEach; l.Hosts < 2 {
					continue // nothing passes the wire
				}
			}
			sum += 2 * each // with that on a control
		}
	}
	return sum
}

// Twin says whether the lab of this index is there to measure the baseline once more.
func (r *Resolved) Twin(lab int) bool {
	return slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Lab == lab && c.Twin })
}

// blockTime is how long one pass over all cells takes, without turns.
func (r *Resolved) blockTime() time.Duration {
	var sum time.Duration
	if r.Experiment.Design.Probe != "" {
		sum = switchTime
	}
	for _, v := range r.Visits {
		sum += r.Cells[v.Cells[0]].Trial
	}
	return sum
}

// LookPlan returns the plan of the run before anything is measured. Turns cost a little: if a block takes more than 2 %
// longer than its trials, the run ends a little earlier. If cells leave when they are decided, and blocks are long, the
// first look comes after a quarter of the time, if five generations fit into that. The remaining time then goes to the
// other cells. Blocks are long if trials are long: trials of seconds hardly suffer from a stolen millisecond.
func (r *Resolved) LookPlan() measure.LookPlan {
	const (
		part = 4
		long = 10 * time.Second
	)
	trials := r.blockTime()
	affordable := int(r.Experiment.Design.Time / (trials + trials/50))
	if r.Experiment.Design.Decided && trials >= long {
		affordable /= part
	}
	return measure.NewLookPlan(r.Experiment.Design.Generations, max(1, affordable))
}

// Forecast estimates what the run will take if ratios have this spread between generations (the standard deviation of
// their logarithms). It assumes that the spread does not depend on the number of blocks in a generation, so that the
// run chooses as few blocks as it may (docs/method.md, "As many generations as pay"). If generations differ less, the
// run has fewer generations and spends less time on building.
func (r *Resolved) Forecast(spread float64) Forecast {
	f := Forecast{Labs: len(r.Labs), Spread: spread, Omitted: r.Omitted, Memory: baseMemory}
	for _, l := range r.Labs {
		hosts, workers := l.Hosts, 2*l.Hosts
		if l.Hosts > 1 {
			hosts++ // the underlay
		}
		f.Hosts += hosts
		f.Containers += 2 * l.Pairs
		f.Memory += int64(hosts)*hostMemory + int64(min(workers, 2*l.Pairs))*workerMemory + int64(2*l.Pairs)*containerMemory
	}
	for _, c := range r.Cells {
		f.Memory += int64(2*c.Pairs) * endpointMemory
	}
	if on := len(r.Experiment.Clusters); on > 0 { // labs share the nodes
		f.Hosts = on * r.Experiment.MostHosts()
	}
	build := time.Duration(f.Hosts)*hostTime + time.Duration(f.Containers)*containerTime
	for _, l := range r.Labs {
		build += l.Stack.BuildTime(l.Hosts, 2*l.Pairs)
	}
	f.Block = r.blockTime()
	for _, v := range r.Visits {
		f.Block += turnTime
		if r.Experiment.Clusters != nil {
			f.Block += time.Duration(r.Cells[v.Cells[0]].Pairs) * callTime
		}
	}
	for _, c := range r.Cells {
		if c.Probe != "" {
			f.Probed += c.Trial + turnTime
		}
	}
	if f.Probed > 0 {
		f.Probed += switchTime
	}
	f.Generations, f.Blocks = r.generations(f.Block)
	f.Measuring = time.Duration(f.Blocks) * f.Block
	f.Building = time.Duration(f.Generations) * build
	f.Proving = r.Experiment.Proof.Time(max(r.Experiment.Design.Time, f.Measuring))
	f.Attacking = r.attackTime()
	f.HalfWidth = r.halfWidth(spread, f.Generations)
	f.Enough = r.enough(spread, f.Block)
	return f
}

// generations returns the numbers of generations and blocks of a run that ends because the time is up. It has at least
// the generations that the experiment asks for, and then more until the time is up, if need be in the middle of one.
func (r *Resolved) generations(block time.Duration) (generations, blocks int) {
	d, plan := r.Experiment.Design, r.LookPlan()
	for ; ; generations++ {
		n, measured := plan.Blocks, time.Duration(blocks)*block
		if generations >= d.Generations {
			if measured >= d.Time {
				return generations, blocks
			}
			n = min(n, int((d.Time-measured)/block)+1)
		}
		blocks += n
		if plan.Done(n) {
			plan.Choose(0)
		}
	}
}

// halfWidth returns the half-width of an interval of Student's t over generations, as a share.
func (r *Resolved) halfWidth(spread float64, generations int) float64 {
	return math.Expm1(measure.HalfWidth(spread, generations, r.Experiment.Design.Judged().Level()))
}

// enough returns the time until two consecutive looks find the requested precision; 0 if that is more than a day. It
// assumes the same as [Resolved.Forecast].
func (r *Resolved) enough(spread float64, block time.Duration) time.Duration {
	var measured time.Duration
	plan, looks := r.LookPlan(), 0
	for g := 1; ; g++ {
		measured += time.Duration(plan.Blocks) * block
		if measured > 24*time.Hour {
			return 0
		}
		if !plan.Done(plan.Blocks) {
			continue
		}
		plan.Choose(0)
		if r.halfWidth(spread, g) > r.Experiment.Design.Precision {
			looks = 0
			continue
		}
		if looks++; looks == 2 {
			return measured
		}
	}
}

// Limits are the limits of what all labs share on a machine; 0 means unknown.
type Limits struct {
	Neighbours int // non-permanent entries of the neighbour table of a family (net.ipv4.neigh.default.gc_thresh3)
	Conntrack  int // connections tracked in one namespace (net.netfilter.nf_conntrack_max)
	Memory     int64

	// Tasks is how many processes and threads can be started in addition to those that run. TasksLimit names the limit,
	// "" if it is unknown, and TasksHelp says how to raise it.
	Tasks                 int
	TasksLimit, TasksHelp string
}

// Processes and threads of a lab, measured on the reference machine and rounded up (pids.peak of a run in its own
// control group). A host has 6 to 7 of PID 1 and 7 to 9 of the agent. A worker has 6, and 1.6 for each of its
// containers. The controller has 12 to 21, of which 8 already run at this check.
const (
	controllerTasks = 12
	hostTasks       = 15
	workerTasks     = 6
	pairTasks       = 3 // for both containers of a pair
)

// Check returns an error if a run needs more than the machine has.
func (r *Resolved) Check(l Limits) error {
	neighbours, tracked, tasks := 0, 0, controllerTasks
	for _, lab := range r.Labs {
		ends := 2 * lab.Pairs
		hosts := lab.Hosts
		if hosts > 1 {
			hosts++ // the underlay
		}
		tasks += hosts*hostTasks + 2*min(lab.Hosts, lab.Pairs)*workerTasks + lab.Pairs*pairTasks
		if x, params, ok := stack.PartOf[network.Sharer](lab.Stack); ok && x.Shares(params) {
			neighbours += 2 * lab.Hosts
			continue
		}
		if _, _, known := stack.PartOf[network.StaticNeighbours](lab.Stack); known && network.Many(lab.Pairs) {
			neighbours += 2 * lab.Hosts // permanent entries do not count (neigh_alloc, net/core/neighbour.c)
		} else {
			neighbours += ends // each knows its peer, or its gateway
			if lab.Hosts > 1 {
				neighbours += ends + 2*lab.Hosts // the gateways know the containers, and each other
			}
		}
		here := ends * len(r.Visits)
		if t, params, ok := stack.PartOf[network.Tracker](lab.Stack); ok {
			here += t.Tracked(params)
		}
		tracked = max(tracked, here) // the limit is per namespace (__nf_conntrack_alloc, net/netfilter/nf_conntrack_core.c)
	}
	f := r.Forecast(DefaultSpread)
	for _, x := range []struct {
		what       string
		need, have int64
		help       string
	}{
		{
			"neighbour entries", int64(neighbours), int64(l.Neighbours),
			"raise net.ipv4.neigh.default.gc_thresh3 and net.ipv6.neigh.default.gc_thresh3",
		},
		{"tracked connections", int64(tracked), int64(l.Conntrack), "raise net.netfilter.nf_conntrack_max"},
		{"MB of memory", f.Memory >> 20, l.Memory >> 20, "close other programs"},
	} {
		if x.have > 0 && x.need > x.have {
			return fmt.Errorf("it needs about %d %s, and this machine has %d (measure fewer pairs or stacks at once, or %s)",
				x.need, x.what, x.have, x.help)
		}
	}
	if l.TasksLimit != "" && tasks > l.Tasks {
		return fmt.Errorf("it needs about %d processes and threads, and there is room for %d: %s (measure fewer pairs or "+
			"stacks at once, or %s)", tasks, l.Tasks, l.TasksLimit, l.TasksHelp)
	}
	return nil
}

// Drivers returns the external programs that drive some of the cells.
func (r *Resolved) Drivers() []driver.Driver {
	var list []driver.Driver
	for _, c := range r.Cells {
		if c.Driver != nil && !slices.ContainsFunc(list, func(d driver.Driver) bool {
			return d.Describe().Name == c.Driver.Describe().Name
		}) {
			list = append(list, c.Driver)
		}
	}
	return list
}

// Groups returns the groups of cells that are compared with each other, in their order.
func (r *Resolved) Groups() [][]Cell {
	var groups [][]Cell
	for _, c := range r.Cells {
		i := slices.IndexFunc(groups, func(g []Cell) bool { return g[0].Group == c.Group })
		if i < 0 {
			groups, i = append(groups, nil), len(groups)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}
