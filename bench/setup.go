package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/bench/minimal"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/measure"
)

const (
	setupPairs  = 20 // 40 containers
	setupRounds = 3  // in a group

	// setupGoal is the limit for making the containers, as a ratio to the minimal loop. goneGoal is the limit for
	// removing them, in seconds.
	setupGoal = 1.3
	goneGoal  = 0.5

	// pause is longer than the kernel takes to free the remains of 40 namespaces after the last link is gone.
	pause = 200 * time.Millisecond

	goneLimit = 10 * time.Second
)

// built is how long the parts of one set-up took, in seconds.
type built struct{ start, apply, verify, gone float64 }

// setup compares making 40 containers by a plan, on a host as nettoll run creates it, with the smallest loop that makes
// the same links.
func (b *bench) setup(ctx context.Context) error {
	var plans []built
	var loops []float64
	applied, verified := make([][]float64, b.setups), make([][]float64, b.setups)
	for group := range b.setups {
		b.say("set-up: group %d of %d", group+1, b.setups)
		for range setupRounds {
			var p built
			var loop float64
			for _, i := range b.random.Perm(2) {
				time.Sleep(pause)
				if i == 0 {
					var err error
					if p, err = b.build(ctx); err != nil {
						return err
					}
					continue
				}
				took, err := minimal.Containers(2 * setupPairs)
				if err != nil {
					return err
				}
				loop = took.Seconds()
			}
			plans, loops = append(plans, p), append(loops, loop)
			applied[group] = append(applied[group], measure.LogRatio(p.apply, loop))
			verified[group] = append(verified[group], measure.LogRatio(p.apply+p.verify, loop))
		}
	}
	column := func(f func(built) float64) []float64 {
		values := make([]float64, len(plans))
		for i, p := range plans {
			values[i] = f(p)
		}
		slices.Sort(values)
		return values
	}
	what := fmt.Sprintf("set-up of %d containers", 2*setupPairs)
	loop := duration(measure.Median(loops))
	r := row{
		what: what + "; other: a minimal netlink loop",
		ours: duration(measure.Median(column(func(p built) float64 { return p.apply }))), theirs: loop,
		goal: "below 1.3 times",
	}
	r.ratio, r.met = compared(applied, setupGoal, true)
	b.table.add(r)
	r = row{
		what: what + " and verification; other: the same loop, which verifies nothing",
		ours: duration(measure.Median(column(func(p built) float64 { return p.apply + p.verify }))), theirs: loop,
	}
	r.ratio, _ = compared(verified, setupGoal, true)
	b.table.add(r)
	gone := column(func(p built) float64 { return p.gone })
	last := quantile(gone, 1)
	b.table.add(row{
		what: what + ": from the closing of the host until its last link is gone",
		ours: fmt.Sprintf("%s, at most %s", duration(measure.Median(gone)), duration(last)),
		goal: "0.5 s", met: within(last, goneGoal),
	})
	b.table.note("set-up: %d groups of %d rounds; the host that the plan is applied to takes %s more to start", b.setups,
		setupRounds, duration(measure.Median(column(func(p built) float64 { return p.start }))))
	return nil
}

// build makes the containers on a new host and removes them.
func (b *bench) build(ctx context.Context) (t built, err error) {
	began := time.Now()
	h, err := local.Start(ctx, local.Options{Name: "host1"})
	if err != nil {
		return t, err
	}
	defer func() { _ = h.Close() }() // a second call does nothing
	t.start = time.Since(began).Seconds()

	seed := b.random.Uint64()
	began = time.Now()
	wanted, err := wanted(b.parts, setupPairs, seed)
	if err != nil {
		return t, err
	}
	p, err := wanted.Plan()
	if err != nil {
		return t, err
	}
	if err := h.Apply(ctx, p.Plans[0]); err != nil {
		return t, err
	}
	t.apply = time.Since(began).Seconds()

	began = time.Now()
	if err := h.Verify(ctx); err != nil {
		return t, err
	}
	t.verify = time.Since(began).Seconds()

	// This file keeps the host's namespace alive, so that its links can be watched.
	ns, err := h.NetNS()
	if err != nil {
		return t, err
	}
	defer func() { _ = ns.Close() }()
	if n, err := veths(ns); err != nil || n != 2*setupPairs {
		return t, fmt.Errorf("the host has %d veths, want %d: %w", n, 2*setupPairs, err)
	}
	began = time.Now()
	if err := h.Close(); err != nil {
		return t, err
	}
	for {
		n, err := veths(ns)
		if err != nil {
			return t, err
		}
		t.gone = time.Since(began).Seconds()
		if n == 0 {
			return t, nil
		}
		if t.gone > goneLimit.Seconds() {
			return t, fmt.Errorf("%d links of a closed host are still there after %v", n, goneLimit)
		}
		time.Sleep(time.Millisecond)
	}
}

// veths counts the links of containers in a namespace.
func veths(ns *os.File) (n int, err error) {
	err = netns.Do(int(ns.Fd()), func() error {
		links, err := net.Interfaces()
		for _, l := range links {
			if strings.HasPrefix(l.Name, "v") {
				n++
			}
		}
		return err
	})
	return n, err
}
