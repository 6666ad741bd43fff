package wire_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/stack"
)

// Flags of go test, behind -args: see the target attack-wire of the Makefile.
var (
	all     = flag.Bool("all", false, "attack every tunnel and encryption, and each network without and with one")
	only    = flag.String("only", "", "attack the labs that match this regular expression")
	table   = flag.String("table", "", "write the table to this file")
	workers = flag.Int("labs", 2, "how many labs are attacked at the same time")
)

// TestMain is the program of the labs' hosts as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"host-init", "agent", "worker", "daemon"}, os.Args[1]) {
		os.Exit(cli.Run(context.Background(), "", cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	testnet.Main(m)
}

// labs are those of two hosts with one pair, of all networks with each of some carriers, or of some networks with each
// choice of carriers. Those that the catalogue leaves out are left out.
func labs(t *testing.T) (list []*experiment.Resolved) {
	t.Helper()
	parts := catalogue.New().Parts()
	choose := func(kind string, names ...string) (s stack.Stack) {
		for _, name := range names {
			c, err := parts.Kinds.Choose(kind, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			s = append(s, c)
		}
		return s
	}
	carriers := map[string][]string{}
	var networks, kinds []string
	for _, k := range parts.Kinds {
		name := k.Describe().Name
		for _, p := range k.Parts() {
			switch p.Value.(type) {
			case network.Network:
				networks = append(networks, p.Name)
			case network.Carrier:
				if carriers[name] == nil {
					carriers[name] = []string{stack.None}
					kinds = append(kinds, name)
				}
				carriers[name] = append(carriers[name], p.Name)
			}
		}
	}
	e := experiment.Base(parts)
	e.Factors = experiment.Factors{
		Parts:      []stack.Stack{choose("network", networks...)},
		Placements: []experiment.Placement{experiment.CrossHost}, Pairs: []int{1}, Families: experiment.Families(),
		Affinities: experiment.Affinities()[:1],
	}
	for _, kind := range kinds {
		e.Factors.Parts = append(e.Factors.Parts, choose(kind, carriers[kind]...))
	}
	e.Workloads = []experiment.Load{{Choice: experiment.Choice{Name: "udp-rr"}}}
	r, err := experiment.Resolve(e, parts, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range r.Labs {
		if !strings.Contains(l.ID, "#2") {
			list = append(list, r.Only(i))
		}
	}
	return list
}

// ci are the labs that are attacked each time: a control, a tunnel, and encryptions below and without one. The suites
// of encryptions attack each of them.
func ci() []string { return []string{"bridge+vxlan/cross-host/1", "bridge+wireguard/cross-host/1"} }

// A row is what came of the attacks on a lab.
type row struct {
	id      string
	results []attack.Result
	planted []attack.Result // as if all were claimed
	err     error
}

// attacked builds a lab, attacks it, and wants it to be as it was.
func attacked(ctx context.Context, r *experiment.Resolved) (row row) {
	row.id = r.Labs[0].ID
	if row.err = r.Labs[0].Stack.Check(); row.err != nil {
		return row
	}
	s, err := control.Stand(ctx, r, &local.Deployment{})
	if err != nil {
		row.err = err
		return row
	}
	got, err := s.Attack(ctx, wire.All(), false, nil)
	row.results = got.Judge(wire.All(), nil, nil)
	claimed := wire.Target{Guards: wire.Guards{Hidden: true, Authentic: true, Once: true, Exclusive: true}}
	row.planted = claimed.Judge(wire.All(), got.OnWire, nil)
	row.err = errors.Join(err, settled(ctx, s), s.Close())
	return row
}

// settled wants a lab to be as it was. Renewals of keys that were cut off may go on for some seconds.
func settled(ctx context.Context, s *control.LiveLab) (err error) {
	const most = time.Minute
	for end := time.Now().Add(most); ; {
		if err = s.Verify(ctx); err == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// What a tunnel does not claim is open on it, in both families, which shows that each attack works. If it did claim it,
// that would be broken. What a lab claims holds, and a lab is as it was when the attacks are over.
func TestMatrix(t *testing.T) {
	testnet.Root(t)
	chosen := slices.DeleteFunc(labs(t), func(r *experiment.Resolved) bool {
		id := r.Labs[0].ID
		switch {
		case *only != "":
			return !regexp.MustCompile(*only).MatchString(id)
		case *all:
			return false
		}
		return !slices.Contains(ci(), id)
	})
	if len(chosen) == 0 || *only == "" && !*all && len(chosen) != len(ci()) {
		t.Fatalf("%d labs to attack", len(chosen))
	}
	rows := make([]row, len(chosen))
	var group sync.WaitGroup
	next := make(chan int)
	for range *workers {
		group.Go(func() {
			for i := range next {
				rows[i] = attacked(t.Context(), chosen[i])
				if *all {
					fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(chosen), rows[i].id)
				}
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	group.Wait()
	if *table != "" {
		if err := os.WriteFile(*table, []byte(written(rows)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range rows {
		t.Run(r.id, func(t *testing.T) {
			if *all && errors.Is(r.err, errors.ErrUnsupported) {
				t.Log(r.err) // the table says so
				return
			}
			testnet.Skip(t, r.err)
			for k, one := range r.results {
				plain := chosen[i].Labs[0].ID == ci()[0]
				judged(t, one, plain)
				if plain && one.Attack != wire.Weaker && r.planted[k].Verdict != attack.Broken {
					t.Errorf("%s, if that were claimed: %s, want broken", one.Attack, r.planted[k].Verdict)
				}
			}
		})
	}
}

// judged wants what is claimed to hold. On a plain lab each attack succeeds in both families.
func judged(t *testing.T, r attack.Result, plain bool) {
	t.Helper()
	switch {
	case r.Attack == wire.Weaker: // neither a tunnel nor WireGuard negotiates ciphers
		if r.Verdict != attack.NotTried || r.Why == "" {
			t.Errorf("%s: %s, %q", r.Attack, r.Verdict, r.Why)
		}
	case r.Verdict == attack.Broken || r.Verdict == attack.Untold:
		t.Errorf("%s: %s: %s %+v", r.Attack, r.Verdict, r.Why, r.Lab)
	case !plain:
	case len(r.NotClaimed) == 0:
		t.Errorf("%s: nobody says why it is not claimed", r.Attack)
	case r.Verdict != attack.Open || len(r.Lab) != 2 || r.Lab[0].Arrived == 0 || r.Lab[1].Arrived == 0:
		t.Errorf("%s: %s, want open in both families: %+v", r.Attack, r.Verdict, r.Lab)
	}
}

// Each stack claims to withstand each attack, or says why not. Tunnels that know who their peers are take no packets
// of strangers, and claim that.
func TestClaimsAreWhole(t *testing.T) {
	strict := map[string]bool{
		"bridge+gre": true, "bridge+ipip": true, "bridge+gre+ipsec": true, "bridge+vxlan": false, "bridge+geneve": false,
		"bridge": false, "overlay": false,
	}
	all := map[string]wire.Target{}
	for _, r := range labs(t) {
		l := r.Labs[0]
		lab, err := network.Compose(network.NewLab(2, roomy), l.Stack)
		if err != nil {
			t.Fatal(err)
		}
		g := lab.Guards()
		all[strings.TrimSuffix(l.ID, "/cross-host/1")] = wire.Target{
			Guards: wire.Guards{Hidden: lab.Hidden(), Authentic: g.Authentic, Once: g.Once, Exclusive: g.Exclusive},
			Claims: g.Claims,
		}
	}
	for id, target := range all {
		for _, r := range target.Judge(wire.All(), wire.Outcomes{}, nil) {
			if !r.Claimed && len(r.NotClaimed) == 0 {
				t.Errorf("%s says nothing about %s", id, r.Attack)
			}
		}
	}
	for id, want := range strict {
		target, known := all[id]
		if got := target.Claims.Claimed(wire.Stranger); !known || got != want {
			t.Errorf("%s (%t) claims to withstand packets of strangers: %t, want %t", id, known, got, want)
		}
	}
}

// roomy is an MTU that leaves enough under all layers, in bytes.
const roomy = 9000

// written is the table.
func written(rows []row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "lab")
	for _, a := range wire.All() {
		fmt.Fprintf(w, "\t%s", strings.TrimPrefix(string(a), "wire-"))
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		if r.results == nil {
			continue
		}
		fmt.Fprint(w, r.id)
		for _, one := range r.results {
			fmt.Fprintf(w, "\t%s", one.Verdict)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	for _, r := range rows {
		if r.err != nil {
			fmt.Fprintf(&b, "\n%s: %v", r.id, r.err)
		}
		for _, one := range r.results {
			if one.Why != "" && one.Attack != wire.Weaker {
				fmt.Fprintf(&b, "\n%s: %s: %s", r.id, one.Attack, one.Why)
			}
			for _, o := range one.Lab {
				if one.Verdict == attack.Broken {
					fmt.Fprintf(&b, "\n%s: %s, %s: %q", r.id, one.Attack, o.Family, o.Holes)
				}
			}
		}
	}
	return b.String() + "\n"
}
