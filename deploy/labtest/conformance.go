package labtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

// limit is how long a call may take on a busy machine.
const limit = 30 * time.Second

// Missing is a program that no host has.
const Missing = "no-such-program"

// Lab returns the spec of a lab with a stack on this number of hosts, and with a pair whose ends are as far apart as
// possible.
func Lab(s stack.Stack, hosts int) deploy.Spec {
	spec := deploy.Spec{
		ID: "lab", Mark: "1/lab", Stack: s, Net: network.NewLab(hosts, 1500), Families: []string{"ipv4", "ipv6"},
	}
	spec.Net.Seed = 7
	var spots []network.Spot
	for k, name := range []string{"src0", "snk0"} {
		h := k * (hosts - 1)
		at := &spec.Net.Hosts[h].Containers
		first := uint16(20000 + 100*k)
		*at = append(*at, network.Container{
			Name: name, Index: len(*at), Ports: network.Ports{First: first, Last: first + 99},
		})
		spots = append(spots, network.Spot{Host: h, Container: len(*at) - 1})
	}
	spec.Pairs = []network.Pair{{Source: spots[0], Sink: spots[1]}}
	return spec
}

// Conformance checks that a deployment builds labs as specified, and that their workers answer and end. It checks that
// nothing is left of a lab that is closed or could not be built. Good can be built; bad cannot, because something is
// missing. The observer can be loaded.
func Conformance(t *testing.T, open func() deploy.Deployment, observer probe.Probe, good []deploy.Spec, bad deploy.Spec,
) {
	t.Run("check", func(t *testing.T) {
		d := open()
		answers, err := d.Check(t.Context(), append(slices.Clone(good), bad))
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range answers[:len(good)] {
			if err != nil {
				t.Errorf("lab %s cannot stand: %v", good[i].ID, err)
			}
		}
		if !errors.Is(answers[len(good)], errors.ErrUnsupported) {
			t.Errorf("lab %s: error %v, want one that says what is missing", bad.ID, answers[len(good)])
		}
	})
	t.Run("machines", func(t *testing.T) {
		list, err := open().Machines(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		var hosts, names []string
		for _, m := range list {
			names, hosts = append(names, m.Name), append(hosts, m.Hosts...)
			if len(m.Hosts) == 0 || len(m.Facts) == 0 {
				t.Errorf("%+v, want a machine with hosts and facts", m)
			}
		}
		if len(list) == 0 || list[0].Hosts[0] != "host1" {
			t.Errorf("%+v, want the machine of host1 first", list)
		}
		slices.Sort(hosts)
		if diff := cmp.Diff([]string{"host1", "host2", "host3"}, hosts); diff != "" {
			t.Errorf("hosts (-want +got):\n%s", diff)
		}
		if len(list) > 0 && slices.Contains(names[1:], "") {
			t.Errorf("machines %q, want names of all but the first", names)
		}
		slices.Sort(names)
		if len(slices.Compact(names)) < len(list) {
			t.Errorf("machines %q, want each once", names)
		}
	})
	t.Run("programs", func(t *testing.T) {
		of := func(name string) deploy.Wanted {
			return deploy.Wanted{Host: 1, Needed: program.Needed{By: "a test", Program: name, Unasked: true}}
		}
		found, err := open().Programs(t.Context(), []deploy.Wanted{of("sh"), of(Missing), of("sh")})
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != 3 || found[0].Err != nil || found[2].Err != nil {
			t.Errorf("%+v, want that sh is installed, twice", found)
		}
		if _, lacks := errors.AsType[*linux.UnsupportedError](found[1].Err); !lacks {
			t.Errorf("program %s: error %v, want one that says what is missing", Missing, found[1].Err)
		}
	})
	t.Run("watch", func(t *testing.T) {
		end, err := open().Watch()
		if err != nil {
			t.Fatal(err)
		}
		if loads := end(); len(loads) == 0 || len(loads[0].CPU) == 0 {
			t.Errorf("%+v, want how busy the CPUs of at least one machine were", loads)
		}
	})
	t.Run("awake", func(t *testing.T) {
		end, err := open().Awake()
		if errors.Is(err, errors.ErrUnsupported) {
			return // it reported that it cannot be built
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		if asleep, err := end(); err != nil || asleep < 0 || asleep > 0.5 {
			t.Errorf("CPUs that were kept awake slept for %v of the time, error %v", asleep, err)
		}
	})
	t.Run("probe", func(t *testing.T) {
		d := open()
		for range 2 { // the second one after the first is removed
			loaded, err := d.LoadProbe(observer)
			if err != nil {
				t.Fatal(err)
			}
			g := begin(t, d)
			if err := errors.Join(loaded.On(), loaded.On(), loaded.Off(), g.Close(), d.Close(), loaded.Close(),
				loaded.Close()); err != nil {
				t.Error(err)
			}
		}
	})
	for _, spec := range good {
		t.Run(spec.ID, func(t *testing.T) { lives(t, open(), spec) })
	}
	t.Run("interrupted", func(t *testing.T) {
		g := begin(t, open())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Build(ctx, good[0]); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that it was interrupted", err)
		}
	})
}

// begin begins a generation of two workers with a thread each, and one cell.
func begin(t *testing.T, d deploy.Deployment) deploy.Generation {
	t.Helper()
	g, err := d.Begin(traffic.Layout{Workers: 2, Pairs: 1, Cells: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// lives builds a lab twice, and checks it and its workers.
func lives(t *testing.T, d deploy.Deployment, spec deploy.Spec) {
	g := begin(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var before [][]network.Endpoint
	for range 2 {
		l, err := g.Build(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		site := l.Site()
		for h, of := range spec.Net.Hosts {
			if len(site.Endpoints[h]) != len(of.Containers) {
				t.Errorf("host %d has %d endpoints, want one for each of %d containers", h+1, len(site.Endpoints[h]),
					len(of.Containers))
			}
		}
		if site.Lab.MTU != spec.Net.MTU {
			t.Errorf("the MTU is %d, want %d", site.Lab.MTU, spec.Net.MTU)
		}
		same := cmp.Comparer(func(a, b network.Endpoint) bool { return a == b })
		if diff := cmp.Diff(before, site.Endpoints, same); before != nil && diff != "" {
			t.Errorf("built again its containers are elsewhere (-before +now):\n%s", diff)
		}
		before = site.Endpoints
		if len(l.Reports()) != len(spec.Net.Hosts) {
			t.Errorf("%d hosts have reported, want %d", len(l.Reports()), len(spec.Net.Hosts))
		}
		if err := l.Verify(ctx); err != nil {
			t.Errorf("verify: %v", err)
		}
		if said := l.Died(ctx); said != "" {
			t.Errorf("it has died: %s", said)
		}
		places(t, l, len(spec.Net.Hosts))
		workers(ctx, t, l, len(spec.Net.Hosts))
		l.Close()
		l.Close() // a second time
		if _, err := l.Start(ctx, 1, host.WorkerSpec{ID: "late"}); err == nil {
			t.Error("a worker was started in a lab that is closed")
		}
	}
}

// places checks the hosts of a lab that can be entered.
func places(t *testing.T, l deploy.Lab, hosts int) {
	t.Helper()
	open, ok := l.(deploy.Enterable)
	if !ok {
		return
	}
	list := open.Places()
	want := hosts
	if hosts > 1 {
		want++ // the underlay
	}
	if len(list) != want {
		t.Errorf("%d places, want %d", len(list), want)
	}
	for _, p := range list {
		if len(p.Plan().Steps) == 0 && hosts > 1 {
			t.Errorf("%s has an empty plan", p.Name())
		}
		f, err := p.Namespace("")
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		_ = f.Close()
	}
}

// workers starts two workers, kills one, and leaves the other one to the lab.
func workers(ctx context.Context, t *testing.T, l deploy.Lab, hosts int) {
	t.Helper()
	killed, err := l.Start(ctx, 1, host.WorkerSpec{ID: "killed"})
	if err != nil {
		t.Fatal(err)
	}
	left, err := l.Start(ctx, hosts, host.WorkerSpec{ID: "left"})
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Kill(); err != nil {
		t.Error(err)
	}
	<-killed.Done()
	if err := killed.Err(); err != nil {
		t.Errorf("it was asked to end, and says %v", err)
	}
	if err := killed.Call(ctx, "begin", nil, nil); err == nil {
		t.Error("a worker that was killed has answered")
	}
	l.Close()
	select {
	case <-left.Done():
	case <-ctx.Done():
		t.Error("a worker has survived its lab")
	}
}
