package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/workload"
)

// logLimit is how long a host may take to give the logs of its programs.
const logLimit = time.Second

// recordReports records the reports of all labs of a generation.
func (s *scheduler) recordReports(g *generation) {
	for _, l := range g.labs {
		if l != nil {
			s.recordReport(l, false)
		}
	}
}

// recordReport records what building a lab cost, who does its work, and its doubts.
func (s *scheduler) recordReport(l *lab, rebuilt bool) {
	vocabulary := s.records.run.Vocabulary()
	record := measure.LabRecord{
		Generation: l.generation.number, Lab: l.ID, Rebuilt: rebuilt,
		Metrics: map[string]float64{"setup_time": l.took.Seconds()},
	}
	if l.idle != nil {
		record.Metrics[workload.IdleCPU] = idleCores(l.idle)
	}
	if l.enforcedIn > 0 {
		record.Metrics[filter.EnforceTime] = l.enforcedIn.Seconds()
	}
	reports := l.stands.Reports()
	for i, t := range reports {
		for name, what := range t.Facts {
			if record.Facts == nil {
				record.Facts = map[string]string{}
			}
			if len(reports) > 1 {
				name = fmt.Sprintf("%s of host%d", name, i+1)
			}
			record.Facts[name] = what
		}
		for name, x := range t.Metrics { // of several hosts the worst
			if other, known := record.Metrics[name]; known {
				m, _ := vocabulary.Lookup(name)
				x = worse(m, x, other)
			}
			record.Metrics[name] = x
		}
		if len(t.Implementations) > 0 {
			if record.Implementations == nil {
				record.Implementations = map[string]string{}
			}
			maps.Copy(record.Implementations, t.Implementations)
		}
		for _, doubt := range t.Doubts {
			s.doubt(l, doubt)
		}
	}
	record.Rights = l.rights()
	s.records.lab(record)
}

// doubtKey is what a doubt has in common with the same one in another generation, which has other figures.
func doubtKey(lab, doubt string) string {
	return lab + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, doubt)
}

// worse returns the worse of two values of a metric: what took longer or is larger, but of rates the lower.
func worse(m measure.Metric, a, b float64) float64 {
	if m.Better == measure.HigherBetter {
		return min(a, b)
	}
	return max(a, b)
}

// perished says what of the lab has ended by itself where a proof has failed, and "" where it has held.
func (l *lab) perished(ctx context.Context, held bool) string {
	if held || ctx.Err() != nil {
		return ""
	}
	return l.stands.Died(ctx)
}

// broken finds the labs in which a program died during the block, and why. Their trials of the block have failed.
func (s *scheduler) broken(ctx context.Context, g *generation, trials []trial) map[int]string {
	broken := map[int]string{}
	for i, l := range g.labs {
		if l == nil || ctx.Err() != nil {
			continue
		}
		if reason := l.stands.Died(ctx); reason != "" {
			broken[i] = reason
		}
	}
	for i := range trials {
		if reason := broken[s.cells[trials[i].cell].Lab]; reason != "" {
			trials[i].failure = reason
		}
	}
	return broken
}

// rebuild builds labs once more in which a program died. The second time in a generation a lab is lost for its rest.
func (s *scheduler) rebuild(ctx context.Context, g *generation, broken map[int]string) error {
	for _, i := range slices.Sorted(maps.Keys(broken)) {
		l := g.labs[i]
		if l == nil {
			continue // a dead worker has cost it
		}
		reason := broken[i]
		if err := s.keepLogs(ctx, g, l); err != nil { // of those that died, before their host ends
			return err
		}
		s.deaths[l.ID]++
		s.died[l.ID]++
		if s.deaths[l.ID] == 1 {
			err := s.configure.again(ctx, l)
			if err == nil {
				s.records.warn(measure.Warning{
					Lab: l.ID, Text: reason + "\nthe lab was rebuilt; trials of that block do not count (if that is often so, see " +
						"what the program says in logs/ of the run directory)",
				})
				s.recordReport(l, true)
				continue
			}
			reason = fmt.Sprintf("%s; rebuilding the lab failed: %v", reason, err)
		}
		s.lose(g, i, errors.New(reason))
	}
	return nil
}

// again builds a lab in the place of one that is broken, by the same plans, with workers in the same seats.
func (c *configurator) again(ctx context.Context, l *lab) error {
	l.close()
	l.watch, l.before, l.passed = nil, nil, nil // what stood is gone
	if l.ways != nil {
		l.ways.Forget()
	}
	ctx, cancel := withLimit(ctx, patience(c.resolved))
	defer cancel()
	if err := l.generation.raise(ctx, l); err != nil {
		return inTime(ctx, err)
	}
	return inTime(ctx, l.open(ctx))
}

// logs keeps what the programs of a generation have said.
func (s *scheduler) logs(ctx context.Context, g *generation) error {
	for _, l := range g.labs {
		if l == nil {
			continue
		}
		if err := s.keepLogs(ctx, g, l); err != nil {
			return err
		}
	}
	return nil
}

// keepLogs writes what the programs of a lab have said into the run directory, of an interrupted run too:
// logs/GENERATION-LAB-HOST-PROGRAM.log. It is called once of each lab that was built; what a lab says that was built in
// the place of a broken one stands behind what that one said.
func (s *scheduler) keepLogs(ctx context.Context, g *generation, l *lab) error {
	if s.options.Dir == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logLimit)
	defer cancel()
	logs, err := l.stands.Logs(ctx)
	if err != nil {
		s.records.warn(measure.Warning{
			Lab: l.ID, Text: fmt.Sprintf("the logs of its programs could not be read: %v; measure again if you need them", err),
		})
	}
	for _, one := range logs {
		file := strings.ReplaceAll(fmt.Sprintf("%d-%s-%s-%s.log", g.number, l.ID, one.Host, one.Program), "/", "-")
		if err := owned.Append(s.options.Dir, filepath.Join("logs", file), one.Text); err != nil {
			return fmt.Errorf("write the log of %s: %w", one.Program, err)
		}
	}
	return nil
}

// unbuildable drops the labs that cannot stand here, as the hosts say that would do the work, before anything is built.
// It is an error where nothing is left to compare.
func (s *scheduler) unbuildable(ctx context.Context) error {
	answers, err := s.configure.ask(ctx, s.active())
	if err != nil {
		return err
	}
	var reasons []error
	for _, i := range slices.Sorted(maps.Keys(answers)) {
		if reason := answers[i]; reason != nil {
			reasons = append(reasons, fmt.Errorf("lab %s: %w", s.options.Resolved.Labs[i].ID, reason))
			s.drop(i, reason)
			if s.options.LeftOut != nil {
				s.options.LeftOut(s.options.Resolved.Labs[i].ID, reason)
			}
		}
	}
	if err := s.baselines(); err != nil {
		return err
	}
	if len(reasons) > 0 && s.done() {
		return fmt.Errorf("no cell is left to compare: %w", errors.Join(reasons...))
	}
	return nil
}

// ask asks the deployment why the labs of cells cannot stand there: by index into Resolved.Labs, nil for those that
// can.
func (c *configurator) ask(ctx context.Context, cells []int) (map[int]error, error) {
	g, err := c.begin(firstGeneration, cells)
	if err != nil {
		return nil, err
	}
	if err := c.describeLabs(g); err != nil {
		return nil, err
	}
	answers := map[int]error{}
	var labs []int
	var specs []deploy.Spec
	for i, l := range g.labs {
		if l == nil {
			continue
		}
		if answers[i] = c.confined(l); answers[i] == nil {
			labs, specs = append(labs, i), append(specs, l.spec)
		}
	}
	list, err := c.deployment.Check(ctx, specs)
	if err != nil {
		return nil, err
	}
	for k, i := range labs {
		answers[i] = list[k]
	}
	return answers, nil
}
