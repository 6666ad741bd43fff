package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
)

// generation is a set of labs whose workers share a turn.
type generation struct {
	*Deployment
	turns traffic.Turns
}

// Turns returns the turn.
func (g *generation) Turns() traffic.Turns { return g.turns }

// Close ends the turn.
func (g *generation) Close() error { return g.turns.Close() }

// lab is a lab whose containers are pods.
type lab struct {
	deployment *Deployment
	name       string // among the labs of all runs
	spec       deploy.Spec
	site       *network.Site
	jobs       []jobSpec // by host, from 0; without pods if it has no containers
	pods       [][]pod   // by host and container, as they were when the lab was built
	services   []service // of the sink of each pair; nil if it has none
	shares     bool      // the network of their node
	attach     string    // names the NetworkAttachmentDefinition of the second interface of pods; "": they have none
	below      [][]int   // by host and container: the index of the device below the pod's link; 0: not known

	mu      sync.Mutex
	started map[string]*running // workers that nobody has asked for yet, by pod
	workers map[string]*running // the last one of each pod
}

var (
	_ deploy.Metered = (*lab)(nil)
	_ deploy.Tapped  = (*lab)(nil)
)

// Build makes the pods of a lab and starts a worker in each.
func (g *generation) Build(ctx context.Context, s deploy.Spec) (_ deploy.Lab, err error) {
	if len(s.Net.Hosts) > len(g.nodes) {
		return nil, fmt.Errorf("lab %s has %d hosts, and the run %d nodes", s.ID, len(s.Net.Hosts), len(g.nodes))
	}
	l := g.newLab(s)
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := l.place(ctx); err != nil {
		return nil, err
	}
	return l, l.settle(ctx)
}

// newLab is a lab of which nothing is made yet.
func (g *generation) newLab(s deploy.Spec) *lab {
	shared, params, ok := stack.PartOf[network.Sharer](s.Stack)
	l := &lab{
		deployment: g.Deployment, name: g.jobName("lab"), spec: s,
		jobs: make([]jobSpec, len(s.Net.Hosts)), pods: make([][]pod, len(s.Net.Hosts)),
		below: make([][]int, len(s.Net.Hosts)), shares: ok && shared.Shares(params), attach: attachedTo(s.Stack),
		site: &network.Site{
			Lab: s.Net, Families: s.Families, Pairs: s.Pairs, Endpoints: make([][]network.Endpoint, len(s.Net.Hosts)),
		},
		started: map[string]*running{}, workers: map[string]*running{},
	}
	for i, h := range s.Net.Hosts {
		if len(h.Containers) > 0 {
			l.jobs[i] = jobSpec{
				name: g.jobName(h.Name()), run: g.run, lab: l.name, image: g.Image, pods: len(h.Containers), node: g.nodes[i].name,
				shares: l.shares, attach: l.attach, apart: l.policed(), owner: g.owner,
			}
		}
	}
	return l
}

// place makes the pods of the lab, and what leads to them and protects them, and waits until they run.
func (l *lab) place(ctx context.Context) error {
	d := l.deployment
	if err := d.keepScouts(ctx); err != nil { // else the cluster removes at once what is made
		return err
	}
	if err := l.serve(ctx); err != nil { // before others name its ports
		return err
	}
	if err := l.protect(ctx); err != nil { // before there are pods: a plugin may let them talk for a moment
		return err
	}
	hosts, jobs := l.inhabited()
	if len(jobs) == 0 {
		return nil
	}
	pods, err := d.create(ctx, labLabel, l.name, jobs...)
	for k := range pods {
		l.pods[hosts[k]] = pods[k]
	}
	return err
}

// inhabited are the hosts with pods, which count from 0, and their Jobs.
func (l *lab) inhabited() (hosts []int, jobs []jobSpec) {
	for i, j := range l.jobs {
		if j.pods > 0 {
			hosts, jobs = append(hosts, i), append(jobs, j)
		}
	}
	return hosts, jobs
}

// settle starts the workers, which know the links of their pods, and describes the containers.
func (l *lab) settle(ctx context.Context) error {
	var mu sync.Mutex
	var all [][2]int // host and container
	mtu := 0
	for h, pods := range l.pods {
		l.site.Endpoints[h], l.below[h] = make([]network.Endpoint, len(pods)), make([]int, len(pods))
		for i := range pods {
			all = append(all, [2]int{h, i})
		}
	}
	if err := l.deployment.each(ctx, len(all), "workers run in pods", func(ctx context.Context, k int) error {
		h, i := all[k][0], all[k][1]
		p, name := &l.pods[h][i], l.spec.Net.Hosts[h].Containers[i].Name
		e, err := p.endpoint(l.attach)
		if err != nil {
			return err
		}
		w, err := l.work(ctx, h, name)
		if err != nil {
			return err
		}
		var links []worker.Link
		if err := w.Call(ctx, worker.Links, nil, &links); err != nil {
			return errors.Join(err, w.Kill())
		}
		if !l.shares {
			e.Namespace = name
		}
		if l.attach != "" {
			e.Inner = innerOf(links, e)
		}
		own := mtuOf(links, e, l.shares)
		mu.Lock()
		defer mu.Unlock()
		l.started[p.Metadata.Name] = w
		l.site.Endpoints[h][i] = e
		if !l.shares {
			l.below[h][i] = belowOf(links, e)
		}
		if own > 0 && (mtu == 0 || own < mtu) {
			mtu = own
		}
		if own == 0 {
			return fmt.Errorf("pod %q: no link of it has one of its addresses %v and %v", p.Metadata.Name, e.IPv4, e.IPv6)
		}
		return nil
	}); err != nil {
		return err
	}
	l.site.Lab.MTU = mtu
	if err := l.publish(); err != nil {
		return err
	}
	return l.talk()
}

// innerOf returns the name of the link with an address of a container; "" if none has one.
func innerOf(links []worker.Link, e network.Endpoint) string {
	for _, l := range links {
		if slices.ContainsFunc(l.Addresses, func(a netip.Addr) bool { return a == e.IPv4 || a == e.IPv6 }) {
			return l.Name
		}
	}
	return ""
}

// mtuOf returns the least MTU of links with an address of a container; 0 if none has one. If it shares the network of
// its node, the routes there are for others, too, and their MTU does not count.
func mtuOf(links []worker.Link, e network.Endpoint, shares bool) (mtu int) {
	for _, l := range links {
		if !slices.ContainsFunc(l.Addresses, func(a netip.Addr) bool { return a == e.IPv4 || a == e.IPv6 }) {
			continue
		}
		own := l.Longest()
		if shares {
			own = l.MTU
		}
		if mtu == 0 || own < mtu {
			mtu = own
		}
	}
	return mtu
}

// belowOf returns the index of the device below the link with an address of a container, which is that of the node; 0
// if it is not known.
func belowOf(links []worker.Link, e network.Endpoint) int {
	for _, l := range links {
		if l.Below != l.Index && slices.ContainsFunc(l.Addresses, func(a netip.Addr) bool {
			return a == e.IPv4 || a == e.IPv6
		}) {
			return l.Below
		}
	}
	return 0
}

// talk says which family of the experiment pods have no address of.
func (l *lab) talk() error {
	for _, family := range l.spec.Families {
		for h, ends := range l.site.Endpoints {
			for i, e := range ends {
				if !e.Bind(family).IsValid() {
					if l.attach != "" {
						return fmt.Errorf("pod %q has no %s address at %s, its interface by %q: that does not give any",
							l.pods[h][i].Metadata.Name, family, e.Inner, l.attach)
					}
					return fmt.Errorf("pod %q has no %s address, or its service has none: the cluster does not have that family",
						l.pods[h][i].Metadata.Name, family)
				}
			}
		}
	}
	return nil
}

// work starts a worker in the pod of a container of a host, which counts from 0.
func (l *lab) work(ctx context.Context, h int, container string) (*running, error) {
	on := l.spec.Net.Hosts[h]
	i := slices.IndexFunc(on.Containers, func(c network.Container) bool { return c.Name == container })
	if i < 0 {
		return nil, fmt.Errorf("host %q has no container %q", on.Name(), container)
	}
	pod := l.pods[h][i].Metadata.Name
	r, err := l.deployment.start(ctx, fmt.Sprintf("worker %s@%s", container, on.Name()), pod, workerCommand, "--container",
		container)
	if err == nil {
		l.mu.Lock()
		l.workers[pod] = r
		l.mu.Unlock()
	}
	return r, err
}

// Site describes the containers.
func (l *lab) Site() *network.Site { return l.site }

// Waited returns 0: labs do not wait for each other.
func (l *lab) Waited() time.Duration { return 0 }

// Reports returns reports without figures: nothing is configured on nodes.
func (l *lab) Reports() []host.Report { return make([]host.Report, len(l.spec.Net.Hosts)) }

// Start returns the worker of a pod: the one that Build has started or, if that has ended, another one.
func (l *lab) Start(ctx context.Context, on int, w host.WorkerSpec) (host.Worker, error) {
	h := on - 1
	r := l.waiting(h, w.Container)
	if r == nil {
		var err error
		if r, err = l.work(ctx, h, w.Container); err != nil {
			if ctx.Err() == nil {
				err = errors.Join(err, l.Verify(ctx)) // its pod may have been evicted
			}
			return nil, err
		}
	}
	if len(w.CPUs) > 0 {
		if err := r.Call(ctx, protocol.Pin, w.CPUs, nil); err != nil {
			return nil, errors.Join(err, r.Kill())
		}
	}
	return r, nil
}

// waiting returns the worker of a container that nobody has asked for yet; nil if there is none.
func (l *lab) waiting(h int, container string) *running {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.spec.Net.Hosts[h].Containers {
		if c.Name != container || i >= len(l.pods[h]) {
			continue
		}
		name := l.pods[h][i].Metadata.Name
		r := l.started[name]
		delete(l.started, name)
		if r != nil {
			select {
			case <-r.Done():
				return nil
			default:
			}
		}
		return r
	}
	return nil
}

// Verify asks the cluster whether the pods are those that were made.
func (l *lab) Verify(ctx context.Context) error {
	all, err := l.deployment.podsWith(ctx, labLabel, l.name)
	if err != nil {
		return &deploy.LostError{Err: err}
	}
	now := byUID(all)
	var lost, errs []error
	for _, pods := range l.pods {
		for _, p := range pods {
			err := differs(p, now[p.Metadata.UID])
			if _, ok := errors.AsType[*deploy.LostError](err); ok {
				lost = append(lost, err)
			} else {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil || lost == nil {
		return err
	}
	return &deploy.LostError{Err: errors.Join(lost...)}
}

// byUID returns pods by their UIDs.
func byUID(pods []pod) map[string]*pod {
	by := make(map[string]*pod, len(pods))
	for i := range pods {
		by[pods[i].Metadata.UID] = &pods[i]
	}
	return by
}

// differs says what is different of a pod now, which is nil if it is not there any more. A [deploy.LostError] says that
// somebody has ended it.
func differs(p pod, now *pod) error {
	switch {
	case now == nil:
		return &deploy.LostError{Err: fmt.Errorf("pod %q is not there any more", p.Metadata.Name)}
	case !now.runs():
		return &deploy.LostError{Err: fmt.Errorf("pod %q does not run any more: %s", p.Metadata.Name,
			cmp.Or(now.never(), now.waits()))}
	case !slices.Equal(now.Status.IPs, p.Status.IPs):
		return fmt.Errorf("pod %q had the addresses %v and has %v", p.Metadata.Name, p.Status.IPs, now.Status.IPs)
	case now.Metadata.Annotations[statusAnnotation] != p.Metadata.Annotations[statusAnnotation]:
		return fmt.Errorf("pod %q had the networks %s and has %s", p.Metadata.Name, p.Metadata.Annotations[statusAnnotation],
			now.Metadata.Annotations[statusAnnotation])
	}
	return nil
}

// Died returns "": who runs in pods are the workers, whose ends control sees.
func (l *lab) Died(context.Context) string { return "" }

// Logs returns nothing: no program of a lab runs on nodes.
func (l *lab) Logs(context.Context) ([]deploy.Log, error) { return nil, nil }

// Meters implements [deploy.Metered]. A device of the node that is below the link of one pod alone leads only there.
func (l *lab) Meters() []deploy.Metering {
	list := make([]deploy.Metering, len(l.pods))
	for h, pods := range l.pods {
		r, known := l.deployment.reading(h)
		if !known {
			return nil
		}
		list[h] = deploy.Metering{Machine: l.deployment.machine(h), Links: map[string]string{}}
		for i := range pods {
			index := l.below[h][i]
			if count(l.below[h], index) > 1 { // as under an ipvlan, whose pods share one
				continue
			}
			for _, d := range r.Devices {
				if d.Index == index {
					list[h].Links[d.Name] = l.spec.Net.Hosts[h].Containers[i].Name
				}
			}
		}
	}
	return list
}

// count returns how often a list has a number.
func count(list []int, of int) (n int) {
	for _, one := range list {
		if one == of {
			n++
		}
	}
	return n
}

// Close removes the pods.
func (l *lab) Close() {
	l.mu.Lock()
	for _, r := range l.started {
		_ = r.Kill() // its pod is removed
	}
	l.started = map[string]*running{}
	l.mu.Unlock()
	_, jobs := l.inhabited()
	// What is left is removed with the namespace, or by the cluster.
	_ = errors.Join(l.deployment.remove(labLabel, l.name, jobs...), l.unprotect(), l.unserve())
}

// measured returns how busy a node was between two answers of its scout, in cores by mode.
func measured(before, after load) map[string]float64 {
	return procfs.Cores(before.CPU, after.CPU, time.Duration(after.At-before.At).Seconds())
}
