package study

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/host"
)

// carrier returns the part of a host's plan that belongs to its carrier: its steps, and the routes through its links.
// Without a carrier it is the routes to other hosts.
func (s *standing) carrier(on int) host.Plan {
	lab := s.Site().Lab
	top := lab.Top()
	var links []string
	for _, r := range top.Reach[on] {
		links = append(links, r.Link)
	}
	var p host.Plan
	if top.Steps != nil {
		p.Steps = slices.Clone(top.Steps[on])
	}
	for _, step := range s.hosts[on].Plan().Steps {
		if r, ok := step.(host.Route); ok && r.NS == "" && slices.Contains(links, r.Dev) && !has(p.Steps, r) {
			p.Steps = append(p.Steps, r)
		}
	}
	return p
}

func has(steps []host.Step, r host.Route) bool {
	return slices.ContainsFunc(steps, func(s host.Step) bool { other, ok := s.(host.Route); return ok && other == r })
}

// all calls f for some hosts at the same time, numbered from 0; if none are given, for all.
func (s *standing) all(ctx context.Context, hosts []int, f func(ctx context.Context, on int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for on := range s.hosts {
		if len(hosts) == 0 || slices.Contains(hosts, on) {
			group.Go(func() error { return f(ctx, on) })
		}
	}
	return group.Wait()
}

// withdraw kills the programs of some hosts, as if they had crashed, and removes the carrier there.
func (s *standing) withdraw(ctx context.Context, hosts ...int) error {
	return s.all(ctx, hosts, func(ctx context.Context, on int) error {
		if err := s.hosts[on].Kill(ctx); err != nil {
			return err
		}
		return s.hosts[on].Withdraw(ctx, s.carrier(on))
	})
}

// restore applies the carrier of some hosts again.
func (s *standing) restore(ctx context.Context, hosts ...int) error {
	return s.all(ctx, hosts, func(ctx context.Context, on int) error { return s.hosts[on].Restore(ctx) })
}

// again removes the carrier on all hosts, applies it again, and returns how long it takes until it is verified.
func (s *standing) again(ctx context.Context) (time.Duration, error) {
	if err := s.withdraw(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.restore(ctx); err != nil {
		return 0, err
	}
	err := s.Verify(ctx)
	return time.Since(began), err
}

// rekey renews the keys of all hosts once.
func (s *standing) rekey(ctx context.Context) error {
	const most = 8
	for stage := range most {
		mores := make([]bool, len(s.hosts))
		err := s.all(ctx, nil, func(ctx context.Context, on int) (err error) {
			mores[on], err = s.hosts[on].Rekey(ctx, stage)
			return err
		})
		if err != nil || !slices.Contains(mores, true) {
			return err
		}
	}
	return fmt.Errorf("keys are not renewed after %d stages", most)
}
