package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/runtime"
)

// lastingTrial is from how long on a trial is stopped by a limit of CPU time nearly as a lasting load is: 10 periods.
const lastingTrial = 10 * runtime.Period * time.Microsecond

// available returns how many of the CPUs of workers a lab may use.
func available(l experiment.Lab, cpus int) int {
	if set := runtime.LimitsIn(l.Stack).CPUSet; set != nil && l.Affinity == "free" {
		return min(cpus, len(set))
	}
	return cpus
}

// confined returns why the threads of a lab cannot run where they should: its containers may not use the CPUs to which
// they are pinned, or those that spin would share a CPU.
func (c *configurator) confined(l *lab) error {
	set := runtime.LimitsIn(l.Stack).CPUSet
	if set == nil {
		return nil
	}
	for _, w := range l.workers {
		for _, cpu := range w.cpus {
			if !slices.Contains(set, cpu) {
				return fmt.Errorf("cpuset=%s lacks CPU %d, to which affinity %q pins each %s (valid: affinity free, or "+
					"cpuset=%s)", cgroup.FormatCPUs(set), cpu, l.Affinity, w.side, cgroup.FormatCPUs(c.cpus))
			}
		}
	}
	for _, cell := range c.resolved.Cells {
		if c.resolved.Labs[cell.Lab].ID == l.ID && cell.Workload.Describe().Spins(cell.Params) &&
			!l.Alone(available(l.Lab, len(c.cpus))) {
			return fmt.Errorf("%s on cpuset=%s, but each spinning pair needs CPUs of its own (valid: mode wait, or more "+
				"CPUs)", cell.Workload.Describe().ID(cell.Params), cgroup.FormatCPUs(set))
		}
	}
	return nil
}

// contained asks a lab what its containers have used so far: nil if they have no workers, or if it cannot say, which is
// a doubt.
func (s *scheduler) contained(ctx context.Context, l *lab) []deploy.ContainerUse {
	u, ok := l.stands.(deploy.Contained)
	if !ok || !runtime.Inside(l.Stack) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	list, err := u.ContainerUse(limited)
	if err != nil && ctx.Err() == nil {
		s.doubt(l, fmt.Sprintf("what its containers have used could not be read: %v; measure again if you need it", err))
	}
	return list
}

// doubt warns about a lab, in the first generation that has the doubt.
func (s *scheduler) doubt(l *lab, text string) {
	if key := doubtKey(l.ID, text); !s.doubted[key] {
		s.doubted[key] = true
		s.records.warn(measure.Warning{Lab: l.ID, Text: text})
	}
}

// beforeTrials notes what containers have used before the first block of a generation.
func (s *scheduler) beforeTrials(ctx context.Context, g *generation) {
	for _, l := range g.labs {
		if l != nil {
			l.before = s.contained(ctx, l)
		}
	}
}

// afterTrials records what containers have used in the trials of a generation. A lab that was built again in between is
// left out.
func (s *scheduler) afterTrials(ctx context.Context, g *generation) {
	for _, l := range g.labs {
		if l == nil || l.before == nil || l.tried == 0 {
			continue
		}
		metrics, doubt := used(l.before, s.contained(ctx, l), l.tried, runtime.LimitsIn(l.Stack), l.shortest)
		if len(metrics) > 0 {
			s.records.lab(measure.LabRecord{Generation: g.number, Lab: l.ID, Metrics: metrics})
		}
		if doubt != "" {
			s.doubt(l, doubt)
		}
	}
}

// used makes metrics of what containers have used in trials of some length together, the shortest of which is given,
// and a doubt if the trials were too short for a limit of CPU time.
func used(before, after []deploy.ContainerUse, tried time.Duration, limits runtime.Limits, shortest time.Duration,
) (metrics map[string]float64, doubt string) {
	metrics = map[string]float64{}
	var cpu time.Duration
	var memory, periods, throttled int64
	for _, a := range after {
		i := slices.IndexFunc(before, func(b deploy.ContainerUse) bool { return b.Host == a.Host && b.Name == a.Name })
		if i < 0 {
			continue
		}
		cpu += a.CPU - before[i].CPU
		memory = max(memory, a.Memory)
		periods += a.Periods - before[i].Periods
		throttled += a.Throttled - before[i].Throttled
	}
	if cpu > 0 {
		metrics[runtime.CPU] = cpu.Seconds() / tried.Seconds()
	}
	if memory > 0 {
		metrics[runtime.Memory] = float64(memory)
	}
	if limits.CPUs == 0 || periods == 0 {
		return metrics, ""
	}
	metrics[runtime.Throttled] = float64(throttled) / float64(periods)
	if shortest < lastingTrial {
		doubt = fmt.Sprintf("the limit %q stopped containers in %d of the %d periods of %v in which they ran; trials of "+
			"%v are short for it, and containers rest between them: a lasting load is stopped more often (use longer trials: "+
			"--trial %v)",
			limits, throttled, periods, runtime.Period*time.Microsecond, shortest, lastingTrial)
	}
	return metrics, doubt
}
