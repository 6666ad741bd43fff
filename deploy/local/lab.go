package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/network"
)

// callLimit is how long one call to an agent may take, unless the caller sets a limit.
const callLimit = 10 * time.Second

// removal is how long the removal of a container may take on a busy machine, in addition to callLimit.
const removal = 300 * time.Millisecond

// lab is a lab whose hosts are on this machine.
type lab struct {
	deployment *Deployment
	spec       deploy.Spec
	plan       deploy.Plan
	hosts      []*Host // host 1 first
	underlay   *Host   // nil on one host
	reports    []host.Report
	between    host.Report // of the underlay
	waited     time.Duration
	across     *filter.ProofPacket // for testing the rules of two hosts; nil on one host
	journal    *journal.Journal
}

var (
	_ deploy.Enterable = (*lab)(nil)
	_ deploy.Used      = (*lab)(nil)
	_ deploy.Watched   = (*lab)(nil)
)

// Build starts the hosts of a lab, applies and verifies their plans, and measures costs.
func (g *generation) Build(ctx context.Context, s deploy.Spec) (_ deploy.Lab, err error) {
	l := &lab{deployment: g.Deployment, spec: s}
	if l.plan, err = s.Plan(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := l.startHosts(ctx, g.files); err != nil {
		return nil, err
	}
	began := time.Now()
	lock, unlock := g.alone.RLock, g.alone.RUnlock
	if deploy.Loads(s.Stack) {
		lock, unlock = g.alone.Lock, g.alone.Unlock
	}
	lock()
	defer unlock()
	l.waited = time.Since(began)
	plans, all := l.plan.Plans, make([]configured, 0, len(l.hosts)+1)
	for _, h := range l.all() {
		all = append(all, h)
	}
	if l.underlay != nil {
		plans = append(slices.Clip(plans), l.plan.Underlay)
	}
	if err := apply(ctx, all, plans, deploy.Loads(s.Stack)); err != nil {
		return nil, err
	}
	if err := l.Verify(ctx); err != nil {
		return nil, err
	}
	began = time.Now()
	defer func() { l.waited += time.Since(began) }()
	l.reports = make([]host.Report, len(l.hosts))
	for i, h := range l.hosts {
		if l.reports[i], err = h.MeasureCost(ctx); err != nil {
			return nil, err
		}
		l.deployment.join(l.reports[i].Joined)
	}
	if l.underlay != nil && l.spec.Net.Underlay.Late() {
		if l.between, err = l.underlay.Report(ctx); err != nil {
			return nil, err
		}
		for i := range l.reports { // a process that may delay packets works for all hosts
			if l.reports[i].Implementations == nil {
				l.reports[i].Implementations = map[string]string{}
			}
			maps.Copy(l.reports[i].Implementations, l.between.Implementations)
		}
	}
	l.across = across(l.plan.Plans)
	return l, l.change(ctx)
}

// startHosts starts the hosts, and the underlay, which has access to the namespaces of all others.
func (l *lab) startHosts(ctx context.Context, files map[string]*os.File) error {
	namespaces := map[string]*os.File{}
	defer func() {
		for _, f := range namespaces {
			_ = f.Close()
		}
	}()
	files = maps.Collect(maps.All(files)) // those of the generation stay as they are
	if slices.ContainsFunc(l.plan.Plans, host.Plan.Outlives) {
		var err error
		if l.journal, err = l.deployment.begun(ctx); err != nil {
			return err
		}
		files[journal.FilePrefix+l.spec.Mark] = l.journal.File()
	} else {
		l.deployment.tidy(ctx)
	}
	if len(deploy.Borrowed(l.spec.Stack)) > 0 {
		machine, err := netns.Current()
		if err != nil {
			return err
		}
		defer machine.Close()
		files[machineFile] = machine
	}
	if slices.ContainsFunc(l.plan.Plans, host.Plan.Outward) {
		root, err := os.Open("/")
		if err != nil {
			return err
		}
		defer root.Close()
		files[host.OutsidePrefix+l.journal.Run()] = root
	}
	many := len(l.plan.Plans) > 1
	secret := host.NewSecret() // only the agents keep it; the underlay does not have it
	for i := range l.plan.Plans {
		h, err := l.deployment.start(ctx, network.Host{Index: i + 1}.Name(), files, l.plan.Plans[i].Groups())
		if err != nil {
			return err
		}
		l.hosts = append(l.hosts, h)
		if err := h.Entrust(ctx, secret); err != nil {
			return err
		}
		if many {
			if namespaces["netns:"+h.Name()], err = h.NetNS(); err != nil {
				return err
			}
		}
	}
	if !many {
		return nil
	}
	var err error
	l.underlay, err = l.deployment.start(ctx, "underlay", namespaces, false)
	return err
}

// configured is a host that can apply a plan.
type configured interface {
	Name() string
	Apply(ctx context.Context, p host.Plan) error
}

// apply applies a plan to each host, in waves. With oneByOne, no two hosts do so at the same time: each of them
// measures the cost of loading, and memory is measured machine-wide.
func apply(ctx context.Context, hosts []configured, plans []host.Plan, oneByOne bool) error {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name()
	}
	waves, err := host.Waves(names, plans)
	if err != nil {
		return err
	}
	for _, wave := range waves {
		group, ctx := errgroup.WithContext(ctx)
		if oneByOne {
			group.SetLimit(1)
		}
		for _, i := range wave {
			group.Go(func() error {
				if err := ctx.Err(); err != nil { // another one has failed
					return err
				}
				return hosts[i].Apply(ctx, plans[i])
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// all returns the running hosts, the underlay last.
func (l *lab) all() []*Host {
	if l.underlay == nil {
		return l.hosts
	}
	return append(slices.Clip(l.hosts), l.underlay)
}

// Site describes the containers.
func (l *lab) Site() *network.Site { return l.plan.Site }

// Waited returns how long the lab waited for others to load their rules, and how long its own measurements took.
func (l *lab) Waited() time.Duration { return l.waited }

// Reports returns the reports of the hosts after the lab was built.
func (l *lab) Reports() []host.Report { return l.reports }

// Start starts a worker next to the containers of a host, or takes that of a container.
func (l *lab) Start(ctx context.Context, on int, w host.WorkerSpec) (host.Worker, error) {
	return l.hosts[on-1].Start(ctx, w)
}

// Verify checks all hosts at the same time.
func (l *lab) Verify(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, h := range l.all() {
		group.Go(func() error { return h.Verify(ctx) })
	}
	return group.Wait()
}

// Died checks the agents, and asks the hosts that have programs.
func (l *lab) Died(ctx context.Context) string {
	for _, h := range l.all() {
		select {
		case <-h.Done():
			return fmt.Sprintf("the agent of %s has ended", h.Name())
		default:
		}
	}
	for _, h := range l.programmed() {
		now, err := l.asked(ctx, h)
		if err != nil {
			return err.Error()
		}
		for _, p := range now.Programs {
			if p.Died != "" {
				return fmt.Sprintf("on %s %s", h.Name(), p.Died)
			}
		}
	}
	return ""
}

// programmed returns the hosts that have programs, the underlay last.
func (l *lab) programmed() []*Host {
	var list []*Host
	for i, h := range l.all() {
		report := l.between
		if i < len(l.reports) {
			report = l.reports[i]
		}
		if len(report.Programs) > 0 {
			list = append(list, h)
		}
	}
	return list
}

// asked returns the report of a host, and does not wait for a host that hangs.
func (l *lab) asked(ctx context.Context, h *Host) (host.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return h.Report(ctx)
}

// Use asks the hosts that have programs.
func (l *lab) Use(ctx context.Context) ([]deploy.Use, error) {
	var all []deploy.Use
	for _, h := range l.programmed() {
		list, err := h.Use(ctx, false)
		if err != nil {
			return nil, err
		}
		for _, u := range list {
			all = append(all, deploy.Use{Host: h.Name(), ProgramUse: u})
		}
	}
	return all, nil
}

// ContainerUse asks all hosts with containers.
func (l *lab) ContainerUse(ctx context.Context) ([]deploy.ContainerUse, error) {
	var all []deploy.ContainerUse
	for _, h := range l.hosts {
		list, err := h.ContainerUse(ctx)
		if err != nil {
			return nil, err
		}
		for _, u := range list {
			all = append(all, deploy.ContainerUse{Host: h.Name(), ContainerUse: u})
		}
	}
	return all, nil
}

// Logs asks the hosts that have programs.
func (l *lab) Logs(ctx context.Context) ([]deploy.Log, error) {
	var all []deploy.Log
	var errs []error
	for _, h := range l.programmed() {
		logs, err := h.Logs(ctx)
		errs = append(errs, err)
		for _, program := range slices.Sorted(maps.Keys(logs)) {
			all = append(all, deploy.Log{Host: h.Name(), Program: program, Text: logs[program]})
		}
	}
	return all, errors.Join(errs...)
}

// Trace asks all hosts at the same time.
func (l *lab) Trace(ctx context.Context, questions []host.Question) ([]host.Trace, error) {
	traces, errs := make([]host.Trace, len(questions)), make([]error, len(questions))
	var group sync.WaitGroup
	for i, q := range questions {
		h := l.underlay
		if i > 0 {
			h = l.hosts[i-1]
		}
		if h == nil {
			continue
		}
		group.Go(func() { traces[i], errs[i] = h.Trace(ctx, q) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return traces, nil
}

// Watch has all hosts watch at the same time.
func (l *lab) Watch(ctx context.Context, announce bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, h := range l.all() {
		group.Go(func() error { return h.Watch(ctx, announce) })
	}
	return group.Wait()
}

// Audit asks all hosts at the same time.
func (l *lab) Audit(ctx context.Context, all bool) ([]deploy.Audit, error) {
	hosts := l.all()
	list := make([]deploy.Audit, len(hosts))
	group, ctx := errgroup.WithContext(ctx)
	for i, h := range hosts {
		group.Go(func() (err error) {
			list[i].Host = h.Name()
			list[i].Audit, err = h.Audit(ctx, all)
			return err
		})
	}
	return list, group.Wait()
}

// Close ends the hosts, and returns what was taken from the machine.
func (l *lab) Close() {
	limit := callLimit
	for _, h := range l.spec.Net.Hosts {
		limit += time.Duration(len(h.Containers)) * removal
	}
	end := func(hosts []*Host) {
		var group sync.WaitGroup
		for _, h := range hosts {
			group.Go(func() {
				if l.journal != nil {
					ctx, cancel := context.WithTimeout(context.Background(), limit) // also if the run was interrupted
					_ = h.Undo(ctx)                                                 // what cannot be undone is recovered below
					cancel()
				}
				_ = h.Close() // the kernel kills the rest with the PID namespace
			})
		}
		group.Wait()
	}
	rest := l.all()
	if l.journal != nil { // daemons of the hosts may say goodbye to each other, over the underlay
		end(l.hosts)
		rest = rest[len(l.hosts):]
	}
	end(rest)
	if l.journal != nil {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		_ = l.journal.Recover(ctx, l.spec.Mark) // what is left is reported when the run ends
		cancel()
	}
}

// Places returns the hosts.
func (l *lab) Places() []deploy.Place {
	var places []deploy.Place
	for i, h := range l.all() {
		p := place{Host: h, plan: l.plan.Underlay}
		if i < len(l.hosts) {
			p.plan = l.plan.Plans[i]
		}
		places = append(places, p)
	}
	return places
}

// place is a host with its plan.
type place struct {
	*Host
	plan host.Plan
}

// Plan returns the applied plan.
func (p place) Plan() host.Plan { return p.plan }
