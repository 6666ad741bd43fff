package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/workload"
)

// A LiveLab is a lab that runs without being measured, until it is closed.
type LiveLab struct {
	Experiment string // its name
	Lab        experiment.Lab
	MTU        int             // bytes
	Proofs     []measure.Proof // of its claims, all of which hold
	Hosts      []LiveHost
	Pairs      []LivePair
	Between    []Layer // between its hosts, from the underlay up to the containers

	configure  *configurator
	generation *generation
	lab        *lab
}

// A Layer is what carries packets between hosts, see [network.Layer].
type Layer = network.Layer

// A LiveHost is a host of a live lab, or its underlay, which is the last.
type LiveHost struct {
	deploy.Place
	Containers []LiveContainer
}

// A LiveContainer is a container of a live lab, or another namespace of a host.
type LiveContainer struct {
	Name      string // "src0", "snk0"
	Namespace string // its network namespace, "" where it shares its host's
	Addresses []netip.Addr
	Endpoint  network.Endpoint
	Ports     network.Ports // those its sockets have; the last one of a sink is not on the list of a filter
}

// A LivePair is where the two ends of a pair are, and at which addresses they know each other.
type LivePair struct {
	Source, Sink           string // "h1/src0"
	SourceAddrs, SinkAddrs []netip.Addr
}

// Stand builds the only lab of an experiment ([experiment.Resolved.Only]) as a run does, has the kernel verify it, and
// proves that its pairs pass packets of full size. The deployment is closed with it.
func Stand(ctx context.Context, r *experiment.Resolved, at deploy.Deployment) (_ *LiveLab, err error) {
	c := &configurator{resolved: r, deployment: at}
	defer func() {
		if err != nil {
			err = errors.Join(err, at.Close())
		}
	}()
	if c.cpus, err = at.CPUs(ctx); err != nil {
		return nil, err
	}
	return c.stand(ctx, firstGeneration)
}

// stand does that for the generation of this number. The deployment stays open.
func (c *configurator) stand(ctx context.Context, number int) (_ *LiveLab, err error) {
	cells := make([]int, len(c.resolved.Cells))
	for i := range cells {
		cells[i] = i
	}
	g, failed, err := c.raise(ctx, number, cells)
	if err != nil {
		return nil, errors.Join(err, joined(failed))
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if len(failed) > 0 {
		return nil, joined(failed)
	}
	l := g.labs[0]
	proofs, silent := l.prove(ctx, l.mtu)
	if silent != nil {
		return nil, fmt.Errorf("lab %s: %w", l.ID, silent)
	}
	if broken(proofs) != nil {
		return nil, &UnprovenError{l.ID, proofs}
	}
	s, err := c.live(l)
	if err != nil {
		return nil, err
	}
	s.Proofs = proofs
	return s, nil
}

// Prove makes the proofs of a run on the lab as it stands, by workers that end with them. Claims cannot be told if the
// workers cannot work.
func (s *LiveLab) Prove(ctx context.Context) (list []measure.Proof) {
	l := s.lab
	untold := func(why string) (list []measure.Proof) {
		for _, c := range l.described(s.MTU).Claims(l.ways) {
			list = append(list, measure.Proof{
				Lab: l.ID, Name: c.Name, Claim: c.Text, Expected: c.Expected, OK: true, Untold: why,
			})
		}
		return list
	}
	if l.ways != nil {
		l.ways.Forget() // nobody knows what was sent since the last proof
	}
	defer func() {
		if err := l.rest(); err != nil {
			list = untold(err.Error())
		}
	}()
	for _, w := range l.workers {
		if w.container != "" {
			continue // it has not ended
		}
		if err := w.start(ctx); err != nil {
			return untold(fmt.Sprintf("start worker %s: %v", w.name(), err))
		}
	}
	list, silent := l.prove(ctx, s.MTU)
	if silent != nil {
		return untold(silent.reason)
	}
	return list
}

// rest ends the workers of a lab but for those that are the only processes of their containers.
func (l *lab) rest() error {
	for _, w := range l.workers {
		if w.container != "" {
			continue
		}
		if err := w.Kill(); err != nil {
			return fmt.Errorf("lab %s: %w", l.ID, err)
		}
	}
	return nil
}

// live returns a lab that stands, without the workers of its hosts.
func (c *configurator) live(l *lab) (*LiveLab, error) {
	if err := l.rest(); err != nil { // nobody sends from here on
		return nil, err
	}
	s := &LiveLab{
		Experiment: c.resolved.Experiment.Name, Lab: l.Lab, MTU: l.mtu, configure: c, generation: l.generation, lab: l,
	}
	return s, s.describe(l)
}

// describe says what is where.
func (s *LiveLab) describe(l *lab) error {
	open, ok := l.stands.(deploy.Enterable)
	if !ok {
		return fmt.Errorf("lab %s: its hosts cannot be entered from here", l.ID)
	}
	s.Between = open.Site().Lab.Between()
	for i, p := range open.Places() {
		h := LiveHost{Place: p}
		if i == len(l.spec.Net.Hosts) {
			h.Containers = routers(p.Plan())
		}
		s.Hosts = append(s.Hosts, h)
	}
	for pair, at := range l.at {
		source, sink := nameOf(workload.Source, pair), nameOf(workload.Sink, pair)
		s.put(at.sourceHost, source, at.source, at.sending)
		s.put(at.sinkHost, sink, at.sink, at.sinkPorts)
		s.Pairs = append(s.Pairs, LivePair{
			Source: fmt.Sprintf("h%d/%s", at.sourceHost, source), SourceAddrs: addresses(at.source.Public),
			Sink: fmt.Sprintf("h%d/%s", at.sinkHost, sink), SinkAddrs: addresses(at.sink.Public),
		})
	}
	for i := range s.Hosts {
		s.Hosts[i].Containers = append(s.Hosts[i].Containers, secluded(s.Hosts[i].Plan())...)
	}
	return nil
}

// secluded are the namespaces of a host that are neither its own nor a container's, as places that commands can run in.
func secluded(p host.Plan) []LiveContainer {
	var list []LiveContainer
	for _, step := range p.Steps {
		if n, ok := step.(host.Secluded); ok {
			list = append(list, LiveContainer{Name: n.Seclusion(), Namespace: n.Seclusion()})
		}
	}
	return list
}

// routers are the namespaces of the underlay besides its own, as places that commands can run in.
func routers(p host.Plan) []LiveContainer {
	var list []LiveContainer
	for _, step := range p.Steps {
		if n, ok := step.(host.Namespace); ok {
			list = append(list, LiveContainer{Name: n.Name, Namespace: n.Name})
		}
	}
	return list
}

func (s *LiveLab) put(on int, name string, e network.Endpoint, ports network.Ports) {
	h := &s.Hosts[on-1]
	h.Containers = append(h.Containers, LiveContainer{
		Name: name, Namespace: e.Namespace, Addresses: addresses(e.Bind), Endpoint: e, Ports: ports,
	})
}

// addresses returns the valid ones of all families.
func addresses(of func(family string) netip.Addr) []netip.Addr {
	var list []netip.Addr
	for _, family := range experiment.Families() {
		if a := of(family); a.IsValid() {
			list = append(list, a)
		}
	}
	return list
}

// Claims returns the proven claims of the lab in one line.
func (s *LiveLab) Claims() string {
	texts := make([]string, len(s.Proofs))
	for i, p := range s.Proofs {
		texts[i] = p.Claim
	}
	return strings.Join(texts, "; ")
}

// Verify asks the kernel of each host whether it is as the plan says. The error is what differs.
func (s *LiveLab) Verify(ctx context.Context) error { return s.lab.stands.Verify(ctx) }

// Close removes the lab. The error names things of the machine that were not returned.
func (s *LiveLab) Close() error {
	s.generation.close()
	return s.configure.deployment.Close()
}
