package control

import (
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/machine"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/measure"
)

// stealLimit is how much of a core a hypervisor may take away before the reader must know.
const stealLimit = 0.02

// BusyLimit is how many CPUs other programs may use before the reader must know.
const BusyLimit = measure.Busy

// Busy says how many CPUs other programs use, and names up to three of them.
func Busy(cpus float64, most []procfs.User, verb, when string) string {
	var names []string
	for _, u := range most[:min(3, len(most))] {
		if u.CPUs > cpus/10 {
			names = append(names, fmt.Sprintf("%s %.2g", u.Name, u.CPUs))
		}
	}
	return fmt.Sprintf("other programs %s %.2g of %d CPUs %s (%s)", verb, cpus, runtime.NumCPU(), when,
		strings.Join(names, ", "))
}

// calls sums up trials whose turns pass by calls to workers on other machines.
type calls struct {
	trials         int
	dead, measured time.Duration // between trials, and in them
}

// callsLimit is which share of the time the calls may take before the reader must know.
const callsLimit = 0.05

// add counts a trial, unless it failed: then its time is not known.
func (c *calls) add(t trial) {
	if t.timing.Skew > 0 && t.failure == "" { // on this machine there are no calls
		c.trials, c.dead, c.measured = c.trials+1, c.dead+t.timing.Dead, c.measured+t.result.Window
	}
}

// doubt says that the calls took too large a share, and how long trials have to be; "" if they did not.
func (c *calls) doubt() string {
	share := c.dead.Seconds() / max((c.dead+c.measured).Seconds(), 1e-9)
	if share <= callsLimit {
		return ""
	}
	const digits = 100 * time.Millisecond
	enough := time.Duration(c.dead.Seconds() / float64(c.trials) * (1/callsLimit - 1) * float64(time.Second))
	return fmt.Sprintf("passing the turn to workers on other machines took %.0f %% of the time of trials; use longer "+
		"trials (--trial %v)", 100*share, (enough + digits - 1).Truncate(digits))
}

// longestCommand is how much of the command line of another run is shown.
const longestCommand = 60

// Brief cuts a command line to what tells which one it is.
func Brief(command string) string {
	if r := []rune(command); len(r) > longestCommand {
		return string(r[:longestCommand-1]) + "…"
	}
	return command
}

// doubts adds what the reader should know about the run as a whole.
func (s *scheduler) doubts() {
	if m := s.monitor; m.loaded > 0 {
		s.records.fact("load", math.Round(m.loaded/m.watched*10)/10) // to one digit, as people say it
	}
	if steal := s.monitor.stealing(); steal > stealLimit {
		s.records.warn(measure.Warning{
			Text: fmt.Sprintf("the hypervisor took away %.1f %% of a core while it was measured; measure again when its other "+
				"guests are idle, or give the run more time (--time)", 100*steal),
		})
	}
	if cpus, most := s.monitor.busy(); cpus > BusyLimit {
		or := "" // more time does not help against what they may have moved
		if s.records.run.Moved(measure.Load{Others: cpus}) == 0 {
			or = ", or give the run more time (--time)"
		}
		idle := ""
		if share := measure.LoadOf(s.records.log.Blocks).IdleText(); share != "" {
			idle = ", and " + share + " of the CPU time was idle"
		}
		s.records.warn(measure.Warning{
			Machine: true,
			Text:    Busy(cpus, most, "used", "while it was measured") + idle + "; stop them and measure again" + or,
		})
	}
	if text := s.records.calls.doubt(); text != "" {
		s.records.warn(measure.Warning{Text: text})
	}
	if text := s.wake.doubt(s.cells); text != "" {
		s.records.warn(measure.Warning{Text: text})
	}
	for _, pid := range slices.Sorted(maps.Keys(s.monitor.runs)) {
		s.records.warn(measure.Warning{
			Machine: true, Text: fmt.Sprintf("another run of nettoll measured at the same time: process %d, %q; measure again "+
				"with --wait", pid, Brief(s.monitor.runs[pid])),
		})
	}
	if machine.Tracked(os.DirFS("/")) {
		s.records.warn(measure.Warning{
			Machine: true, Text: "the module openvswitch made every network namespace track connections, as it does before " +
				"Linux 6.12, so all stacks paid for that; unload it (rmmod openvswitch) and measure without stacks that load " +
				"it, or use Linux 6.12",
		})
	}
	full := s.monitor.refused()
	for _, family := range slices.Sorted(maps.Keys(full)) {
		s.records.warn(measure.Warning{
			Machine: true, Text: fmt.Sprintf("the kernel's table of %s neighbours was full %d times, and packets were dropped "+
				"for that; stop what fills it, as all network namespaces share it, and measure again, or raise "+
				"net.%s.neigh.default.gc_thresh3", strings.Replace(family, "ip", "IP", 1), full[family], family),
		})
	}
	if group, err := cgroup.Scheduled(); err == nil {
		if text := levels(s.options.Resolved.Labs, group); text != "" {
			s.records.warn(measure.Warning{Text: text})
		}
	}
	for _, note := range s.options.Resolved.Notes {
		s.records.warn(measure.Warning{Text: note})
	}
	if n := len(s.options.Resolved.Omitted); n > 0 {
		texts := make([]string, n)
		for i, o := range s.options.Resolved.Omitted {
			texts[i] = o.What + " (" + o.Reason + ")"
		}
		s.records.warn(measure.Warning{Text: "left out: " + strings.Join(texts, "; ")})
	}
}
