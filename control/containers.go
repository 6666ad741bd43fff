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
	"github.com/nettoll/nettoll/stack"
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
		record, doubt := used(l.before, s.contained(ctx, l), l.tried, runtime.LimitsIn(l.Stack), l.shortest)
		if len(record.Metrics) > 0 {
			record.Generation, record.Lab = g.number, l.ID
			s.records.lab(record)
		}
		if doubt != "" {
			s.doubt(l, doubt)
		}
	}
}

// used makes metrics of what containers have used in trials of some length together, the shortest of which is given,
// and a doubt if the trials were too short for a limit of CPU time. Both looks are outside of trials.
func used(before, after []deploy.ContainerUse, tried time.Duration, limits runtime.Limits, shortest time.Duration,
) (r measure.LabRecord, doubt string) {
	metrics := func(u cgroup.Use) map[string]float64 {
		m := map[string]float64{}
		if u.CPU > 0 {
			m[runtime.CPU] = u.CPU.Seconds() / tried.Seconds()
		}
		if u.Memory > 0 {
			m[runtime.Memory] = float64(u.Memory)
		}
		if limits.CPUs > 0 && u.Periods > 0 {
			m[runtime.Throttled] = float64(u.Throttled) / float64(u.Periods)
		}
		return m
	}
	var all cgroup.Use
	for _, a := range after {
		i := slices.IndexFunc(before, func(b deploy.ContainerUse) bool { return b.Host == a.Host && b.Name == a.Name })
		if i < 0 {
			continue
		}
		one := cgroup.Use{
			CPU: a.CPU - before[i].CPU, Memory: a.Memory,
			Periods: a.Periods - before[i].Periods, Throttled: a.Throttled - before[i].Throttled,
		}
		all.CPU += one.CPU
		all.Memory = max(all.Memory, one.Memory)
		all.Periods += one.Periods
		all.Throttled += one.Throttled
		r.Containers = append(r.Containers, measure.ContainerMetrics{Host: a.Host, Name: a.Name, Metrics: metrics(one)})
	}
	r.Metrics = metrics(all)
	if limits.CPUs > 0 && all.Periods > 0 && shortest < lastingTrial {
		doubt = fmt.Sprintf("the limit %q stopped containers in %d of the %d periods of %v in which they ran; trials of "+
			"%v are short for it, and containers rest between them: a lasting load is stopped more often (use longer trials: "+
			"--trial %v)",
			limits, all.Throttled, all.Periods, runtime.Period*time.Microsecond, shortest, lastingTrial)
	}
	return r, doubt
}

// levels warns if labs are compared whose workers are in control groups of other levels: containers, and what is in
// the group of this process. It is "" if there are no such labs.
func levels(labs []experiment.Lab, group string) string {
	own := cgroup.Level(group)
	if own < 2 { // in the first level, as those of most runtimes, or not in any
		return ""
	}
	inside := ""
	var beside bool
	for _, l := range labs {
		c, _, ok := stack.PartOf[runtime.Runtime](l.Stack)
		g, params, groups := stack.PartOf[runtime.Grouper](l.Stack)
		switch {
		case ok && runtime.Inside(l.Stack):
			inside = c.Describe().Name
		case !groups || !g.Grouped(params):
			beside = true
		}
	}
	if inside == "" || !beside {
		return ""
	}
	return fmt.Sprintf("workers outside of containers were in a control group of level %d (%s), and those in containers "+
		"of %s in one of the first level or the second one; the deeper it is, the longer a thread takes to sleep and to "+
		"wake up; compare with runtime netns(group=own)", own, group, inside)
}
