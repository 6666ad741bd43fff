package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/remote"
)

// Several builds labs on several clusters, each lab on the one that its stack names ([stack.OnCluster]). Blocks visit
// the labs of all of them in turn, so that clusters are compared in the same minutes. Set its fields before use.
type Several struct {
	Names    []string // of the clusters, the usual one first
	Clusters []*Deployment
}

var _ deploy.Standing = (*Several)(nil)

// on returns the cluster of a stack.
func (s *Several) on(of stack.Stack) (*Deployment, error) {
	i := slices.Index(s.Names, stack.OnCluster(of))
	if i < 0 {
		return nil, fmt.Errorf("the stack is on no cluster of the experiment: %q", stack.OnCluster(of))
	}
	return s.Clusters[i], nil
}

// open reaches all clusters at the same time.
func (s *Several) open(ctx context.Context) error {
	group, inGroup := errgroup.WithContext(ctx)
	for i, d := range s.Clusters {
		d.opening.Lock() // others may open them at the same time
		d.prefix = s.Names[i] + "/"
		d.opening.Unlock()
		group.Go(func() error {
			if err := d.open(inGroup); err != nil {
				return fmt.Errorf("%s: %w", s.Names[i], err)
			}
			return nil
		})
	}
	return group.Wait()
}

// AsBuilt implements [deploy.Standing].
func (s *Several) AsBuilt() string { return s.Clusters[0].AsBuilt() }

// CPUs returns the CPUs that every node of every cluster has.
func (s *Several) CPUs(ctx context.Context) ([]int, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	var nodes []node
	for _, d := range s.Clusters {
		nodes = append(nodes, d.nodes...)
	}
	return common(nodes)
}

// Machines returns the nodes of all clusters, each named after its cluster, too.
func (s *Several) Machines(ctx context.Context, hosts int) (list []deploy.Machine, err error) {
	for i, d := range s.Clusters {
		of, err := d.Machines(ctx, hosts)
		if err != nil {
			return nil, err
		}
		for _, m := range of {
			m.Name = s.Names[i] + "/" + m.Name
			list = append(list, m)
		}
	}
	return list, nil
}

// Check implements [deploy.Deployment].
func (s *Several) Check(ctx context.Context, labs []deploy.Spec) ([]error, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	wrong := make([]error, len(labs))
	on := map[*Deployment][]int{}
	for i, l := range labs {
		d, err := s.on(l.Stack)
		if wrong[i] = err; err == nil {
			on[d] = append(on[d], i)
		}
	}
	for d, which := range on {
		of := make([]deploy.Spec, len(which))
		for k, i := range which {
			of[k] = labs[i]
		}
		for k, err := range d.check(ctx, of) {
			wrong[which[k]] = err
		}
	}
	return wrong, nil
}

// Programs looks for programs in the images of all clusters. One that is missing in one of them is missing.
func (s *Several) Programs(ctx context.Context, wanted []deploy.Wanted) ([]deploy.Found, error) {
	var all []deploy.Found
	for i, d := range s.Clusters {
		found, err := d.Programs(ctx, wanted)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			all = found
		}
		for j, f := range found {
			if f.Err != nil && all[j].Err == nil {
				all[j] = deploy.Found{Err: fmt.Errorf("cluster %s: %w", s.Names[i], f.Err)}
			}
		}
	}
	return all, nil
}

// Watch asks how busy the nodes of all clusters are.
func (s *Several) Watch() (func() []deploy.Load, error) {
	ends := make([]func() []deploy.Load, len(s.Clusters))
	for i, d := range s.Clusters {
		var err error
		if ends[i], err = d.Watch(); err != nil {
			return nil, err
		}
	}
	return func() (list []deploy.Load) {
		for i, end := range ends {
			for _, l := range end() {
				l.Machine = s.Names[i] + "/" + l.Machine
				list = append(list, l)
			}
		}
		return list
	}, nil
}

// Awake is not possible, see [Deployment.Awake].
func (s *Several) Awake() (func() (float64, error), error) { return s.Clusters[0].Awake() }

// LoadProbe is not possible, see [Deployment.LoadProbe].
func (s *Several) LoadProbe(p probe.Probe) (deploy.LoadedProbe, error) {
	return s.Clusters[0].LoadProbe(p)
}

// Begin makes the turn of a generation, which passes by calls to the pods of all clusters.
func (s *Several) Begin(traffic.Layout) (deploy.Generation, error) {
	turns := remote.New()
	for _, d := range s.Clusters {
		turns.Hush(d.client.Hush)
		d.meter(turns)
	}
	return &generations{several: s, turns: turns}, nil
}

// Close implements [deploy.Deployment].
func (s *Several) Close() error {
	var errs []error
	for _, d := range s.Clusters {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// generations is a generation on several clusters.
type generations struct {
	several *Several
	turns   traffic.Turns
}

// Turns returns the turn.
func (g *generations) Turns() traffic.Turns { return g.turns }

// Build builds a lab on its cluster.
func (g *generations) Build(ctx context.Context, spec deploy.Spec) (deploy.Lab, error) {
	d, err := g.several.on(spec.Stack)
	if err != nil {
		return nil, err
	}
	return (&generation{Deployment: d, turns: g.turns}).Build(ctx, spec)
}

// Close ends the turn.
func (g *generations) Close() error { return g.turns.Close() }
