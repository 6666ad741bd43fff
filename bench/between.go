package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// meshHosts is how many hosts a full mesh has. meshFast and meshProgram are the limits for building it, in seconds.
	meshHosts             = 8
	meshFast, meshProgram = 3, 8

	// Goals of ratios.
	wireguardGoal, ebpfGoal, tapGoal = 5, 0.75, 0.97

	streamed = "tcp-stream(message=131072"
)

// slow is one of the choices of a lab whose hosts send at 1 Gbit/s. Any stack here reaches this rate, so that the rate
// limits the throughput of streams however busy the machine is.
func slow() [2]string { return [2]string{"underlay", "slow"} }

const slowRate = 1e9 // bit/s

// spanning returns the spec of a lab with a pair of containers, the source on host 1 and the sink on host 2.
func (b *bench) spanning(hosts int, choices ...[2]string) (s deploy.Spec, err error) {
	s = deploy.Spec{Net: network.NewLab(hosts, mtu), Families: []string{"ipv4"}}
	s.Net.Seed = b.random.Uint64()
	if i := slices.Index(choices, slow()); i >= 0 {
		choices = slices.Delete(slices.Clone(choices), i, i+1)
		s.Net.Underlay.Rate = slowRate
		defer func() { s.ID += ", 1 Gbit/s between hosts" }()
	}
	var chosen stack.Stack
	if !slices.ContainsFunc(choices, func(c [2]string) bool { return c[0] == "network" }) {
		choices = append([][2]string{{"network", networkName}}, choices...)
	}
	var names []string
	for _, c := range choices {
		name, params := c[1], map[string]string(nil)
		if c[0] == "tunnel" && c[1] != "vxlan" {
			params = map[string]string{"impl": "ebpf"}
		}
		if c[1] == "wireguard" {
			params = map[string]string{"impl": "embedded"}
		}
		one, err := b.parts.Kinds.Choose(c[0], name, params)
		if err != nil {
			return s, err
		}
		names = append(names, name)
		chosen = append(chosen, one)
	}
	s.ID = strings.Join(names, "+")
	if s.Stack, err = b.parts.Kinds.Complete(chosen); err != nil {
		return s, err
	}
	for i := range 2 {
		s.Net.Hosts[i].Containers = []network.Container{{Name: []string{"src0", "snk0"}[i]}}
	}
	if err := s.Stack.Check(); err != nil {
		return s, err
	}
	s.Net, err = network.Compose(s.Net, s.Stack)
	return s, err
}

// streams are nettoll's own streams, through one lab after another.
type streams struct {
	labs []*lab
	ids  []string
}

// openStreams builds labs, each with these cells.
func (b *bench) openStreams(ctx context.Context, cells []cell, labs ...[][2]string) (s streams, err error) {
	for _, choices := range labs {
		spec, err := b.spanning(2, choices...)
		if err == nil {
			var l *lab
			if l, err = openLabOf(ctx, b, spec, cells); err == nil {
				s.labs, s.ids = append(s.labs, l), append(s.ids, spec.ID)
			}
		}
		if err != nil {
			s.close()
			return s, err
		}
	}
	return s, nil
}

func (s streams) close() {
	for _, l := range s.labs {
		l.close()
	}
}

// goodput returns the throughput of one visit of a lab, in bit/s.
func (b *bench) goodput(ctx context.Context, l *lab, number int) (float64, error) {
	for try := 1; ; try++ {
		time.Sleep(settle)
		m, err := l.visit(ctx, number)
		if err == nil || try == tries || ctx.Err() != nil {
			return m["goodput"], err
		}
	}
}

// encapsulation compares eBPF tunnels with the kernel's VXLAN, under a network whose hosts route to containers, and
// under a bridge. A bridge makes Linux segment the packets that eBPF has taken out of a tunnel, see host/iptunnel.
func (b *bench) encapsulation(ctx context.Context) error {
	return errors.Join(b.encapsulated(ctx, "routed"), b.encapsulated(ctx, networkName))
}

func (b *bench) encapsulated(ctx context.Context, under string) error {
	c, err := newCell(b.parts, streamed+")", 0, b.visit)
	if err != nil {
		return err
	}
	names := []string{"ipip", "gre", "vxlan"}
	rates := make([][]float64, len(names))
	ratios := make([][][]float64, len(names)-1)
	for group := range b.groups {
		b.say("tunnels by eBPF under %s, group %d of %d", under, group+1, b.groups)
		var labs [][][2]string
		for _, n := range names {
			labs = append(labs, [][2]string{{"network", under}, {"tunnel", n}})
		}
		s, err := b.openStreams(ctx, []cell{c}, labs...)
		if err != nil {
			return err
		}
		for i := range ratios {
			ratios[i] = append(ratios[i], nil)
		}
		for range b.rounds {
			got := make([]float64, len(names))
			for _, i := range b.random.Perm(len(names)) {
				if got[i], err = b.goodput(ctx, s.labs[i], 0); err != nil {
					s.close()
					return err
				}
				rates[i] = append(rates[i], got[i])
			}
			for i := range ratios {
				ratios[i][group] = append(ratios[i][group], measure.LogRatio(got[i], got[len(names)-1]))
			}
		}
		s.close()
	}
	for i := range ratios {
		r := row{
			what: fmt.Sprintf("tcp-stream, 1 flow, across hosts, %s+%s(impl=ebpf); other: %s+vxlan of the kernel", under,
				names[i], under),
			ours: bitrate(measure.Median(rates[i])), theirs: bitrate(measure.Median(rates[len(names)-1])),
			goal: fmt.Sprintf("at least %.2f", ebpfGoal),
		}
		r.ratio, r.met = compared(ratios[i], ebpfGoal, false)
		b.table.add(r)
	}
	return nil
}

// agreement compares streams of nettoll with those of iperf3, in the same labs.
func (b *bench) agreement(ctx context.Context) error {
	var cells []cell
	for _, id := range []string{streamed + ")", streamed + ",driver=iperf3)"} {
		c, err := newCell(b.parts, id, 0, b.visit)
		if err != nil {
			return err
		}
		cells = append(cells, c)
	}
	tunnel, encryption := [2]string{"tunnel", "vxlan"}, [2]string{"encryption", "wireguard"}
	labs := [][][2]string{{slow()}, {tunnel, slow()}, {encryption, slow()}, nil, {tunnel}, {encryption}}
	ratios, rates := make([][][]float64, len(labs)), make([][2][]float64, len(labs))
	var ids []string
	for group := range b.groups {
		b.say("streams: nettoll and iperf3, group %d of %d", group+1, b.groups)
		s, err := b.openStreams(ctx, cells, labs...)
		if err != nil {
			return err
		}
		ids = s.ids
		for i, l := range s.labs {
			ratios[i] = append(ratios[i], nil)
			for range b.rounds {
				var got [2]float64
				for _, c := range b.random.Perm(2) {
					if got[c], err = b.goodput(ctx, l, c); err != nil {
						s.close()
						return err
					}
					rates[i][c] = append(rates[i][c], got[c])
				}
				ratios[i][group] = append(ratios[i][group], measure.LogRatio(got[0], got[1]))
			}
		}
		s.close()
	}
	for i := range labs {
		r := row{
			what: fmt.Sprintf("tcp-stream, 1 flow, across hosts, %s; other: iperf3", ids[i]),
			ours: bitrate(measure.Median(rates[i][0])), theirs: bitrate(measure.Median(rates[i][1])),
			goal: "within 5 %",
		}
		r.ratio, r.met = agreed(ratios[i])
		b.table.add(r)
	}
	return nil
}

// taps compares two equal labs. In one of them the underlay has just captured frames, as in a proof.
func (b *bench) taps(ctx context.Context) error {
	c, err := newCell(b.parts, streamed+")", 0, b.visit)
	if err != nil {
		return err
	}
	choices := [][2]string{{"tunnel", "vxlan"}}
	var ratios [][]float64
	var with, without []float64
	for group := range b.groups {
		b.say("taps, group %d of %d", group+1, b.groups)
		s, err := b.openStreams(ctx, []cell{c}, choices, choices)
		if err != nil {
			return err
		}
		ratios = append(ratios, nil)
		tapped := group % 2 // the lab with the tap alternates, because the two may differ
		for range b.rounds {
			var got [2]float64
			for _, i := range b.random.Perm(2) {
				if i == tapped {
					if err := tap(ctx, s.labs[i].stands); err != nil {
						s.close()
						return err
					}
				}
				if got[i], err = b.goodput(ctx, s.labs[i], 0); err != nil {
					s.close()
					return err
				}
			}
			with, without = append(with, got[tapped]), append(without, got[1-tapped])
			ratios[group] = append(ratios[group], measure.LogRatio(got[tapped], got[1-tapped]))
		}
		s.close()
	}
	r := row{
		what: "tcp-stream, 1 flow, across hosts by vxlan, after a tap has listened; other: never tapped",
		ours: bitrate(measure.Median(with)), theirs: bitrate(measure.Median(without)),
		goal: fmt.Sprintf("at least %.2f", tapGoal),
	}
	r.ratio, r.met = compared(ratios, tapGoal, false)
	b.table.add(r)
	return nil
}

// tap makes the underlay capture frames and stop again, as a proof does.
func tap(ctx context.Context, l deploy.Lab) error {
	hosts := len(l.Site().Lab.Hosts)
	questions := make([]host.Question, hosts+1)
	questions[0].Tap = &host.Tap{Links: []string{"host1", "host2"}, Mark: []byte("0123456789abcdef")}
	if _, err := l.Trace(ctx, questions); err != nil {
		return err
	}
	traces, err := l.Trace(ctx, make([]host.Question, hosts+1))
	if err == nil && traces[0].Capture != nil {
		err = errors.New("the tap has kept frames, which nobody asked for")
	}
	return err
}

// mesh measures how long many hosts in full mesh take until everything is verified.
func (b *bench) mesh(ctx context.Context) error {
	names := []string{"wireguard", "openvpn", "ipsec", "tinc"}
	took := map[string][]float64{}
	for group := range b.groups {
		b.say("mesh: %d hosts in full mesh, group %d of %d", meshHosts, group+1, b.groups)
		for _, i := range b.random.Perm(len(names)) {
			n := names[i]
			seconds, err := b.stand(ctx, n)
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%d hosts with %s: %w", meshHosts, n, err)
			}
			took[n] = append(took[n], seconds)
		}
	}
	if len(took) == 0 {
		return &linux.UnsupportedError{What: "encrypt between hosts", Missing: "encryptions"}
	}
	for _, n := range names {
		if len(took[n]) == 0 {
			continue
		}
		goal := float64(meshProgram)
		if n == "wireguard" {
			goal = meshFast
		}
		slices.Sort(took[n])
		r := row{
			what: fmt.Sprintf("set-up of %d hosts in full mesh with %s, until it is verified", meshHosts, n),
			ours: fmt.Sprintf("%s (at most %s)", duration(measure.Median(took[n])), duration(quantile(took[n], 1))),
		}
		if n != "tinc" { // it has no goal
			r.goal, r.met = duration(goal), within(measure.Median(took[n]), goal)
		}
		b.table.add(r)
	}
	return nil
}

// stand builds this many hosts, has them verified and removes them. It returns the time until they were verified.
func (b *bench) stand(ctx context.Context, encryption string) (float64, error) {
	s, err := b.spanning(meshHosts, [2]string{"encryption", encryption})
	if err != nil {
		return 0, err
	}
	stage, err := new(local.Deployment).Begin(traffic.Layout{Workers: 1, Pairs: 1, Cells: 1})
	if err != nil {
		return 0, err
	}
	defer func() { _ = stage.Close() }() // the rest goes with the process
	began := time.Now()
	l, err := stage.Build(ctx, s)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	err = l.Verify(ctx)
	return time.Since(began).Seconds(), err
}
