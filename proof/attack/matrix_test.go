package attack_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
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
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
)

// Flags of go test, behind -args: see the target attack of the Makefile.
var (
	all  = flag.Bool("all", false, "attack every network, filter and placement that compose, with 2 and 3 pairs")
	only = flag.String("only", "",
		"attack the labs that match this regular expression, and those without a filter of the same networks")
	on      = flag.String("network", "", "attack only labs of these networks, such as \"ipvlan ipvlan(mode=l3)\"")
	by      = flag.String("by", "", "attack the networks that this runtime builds, such as \"docker\", in its containers")
	which   = flag.String("attacks", "", "make only the attacks that match this regular expression")
	table   = flag.String("table", "", "write the table to this file; - is standard output")
	sampled = flag.Bool("sampled", false, "with -all: try some ports of every range, never all ports")
	workers = flag.Int("labs", 4, "how many labs are attacked at the same time")
)

// TestMain is the program of the labs' hosts as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"host-init", "agent", "worker", "daemon"}, os.Args[1]) {
		os.Exit(cli.Run(context.Background(), "", cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	testnet.Main(m)
}

// variants crosses those parameters of a part that are words, but for some and for those that are given.
func variants(t *testing.T, kinds stack.Kinds, kind, name string, list part.List, crossed bool,
	given part.Params, but ...string,
) stack.Stack {
	t.Helper()
	all := []part.Params{given}
	for _, p := range list {
		if _, is := given[p.Name]; is || p.Values == nil || slices.Contains(but, p.Name) {
			continue
		}
		before := all
		if !crossed {
			before = all[:1]
		}
		for _, v := range p.Values {
			if v == p.Default || v == "auto" {
				continue
			}
			for _, params := range before {
				more := maps.Clone(params)
				more[p.Name] = v
				all = append(all, more)
			}
		}
	}
	choices := make(stack.Stack, len(all))
	for i, p := range all {
		var err error
		if choices[i], err = kinds.Choose(kind, name, p); err != nil {
			t.Fatal(err)
		}
	}
	return choices
}

// stacks returns all labs of the catalogue, of one network or of those that a runtime builds, and what is left out with
// the reason.
func stacks(t *testing.T) (labs []*experiment.Resolved, omitted []experiment.Omission) {
	t.Helper()
	parts := catalogue.New().Parts()
	filters := variants(t, parts.Kinds, "filter", stack.None, nil, false, part.Params{})
	for _, f := range stack.PartsOf[filter.Filter](parts.Kinds) {
		d := f.Describe()
		filters = append(filters, variants(t, parts.Kinds, "filter", d.Name, d.Params, true, part.Params{},
			filter.Decoys)...)
	}
	given, factors := part.Params{}, []stack.Stack{filters}
	if *by != "" {
		runtime, err := parts.Kinds.Choose("runtime", *by, nil)
		if err != nil {
			t.Fatal(err)
		}
		given, factors = part.Params{"by": *by}, append(factors, stack.Stack{runtime})
	}
	for _, n := range stack.PartsOf[network.Network](parts.Kinds) {
		d := n.Describe()
		if p, err := d.Params.Find("network", "by"); *by != "" && (err != nil || !slices.Contains(p.Values, *by)) {
			continue
		}
		for _, choice := range variants(t, parts.Kinds, "network", d.Name, d.Params, false, given,
			network.LinkParams().Names()...) {
			if *on != "" && !slices.Contains(strings.Fields(*on), choice.ID()) {
				continue
			}
			if err := (stack.Stack{choice}).Check(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				// a parameter that does not go with the others, such as backend without plugin=flannel
				omitted = append(omitted, experiment.Omission{What: choice.ID(), Reason: err.Error()})
				continue
			}
			e := experiment.Base(parts)
			e.Factors = experiment.Factors{
				Parts: append([]stack.Stack{{choice}}, factors...), Placements: experiment.Placements(), Pairs: []int{2, 3},
				Families: experiment.Families(), Affinities: experiment.Affinities()[:1],
			}
			e.Workloads = []experiment.Load{{Choice: experiment.Choice{Name: "udp-rr"}}}
			r, err := experiment.Resolve(e, parts, 2)
			if err != nil {
				t.Fatal(err)
			}
			omitted = append(omitted, r.Omitted...)
			base := e.Baseline.Parts[0].Part.Name
			for i, l := range r.Labs {
				if l.Stack[0].Part.Name != base || d.Name == base && !strings.HasSuffix(l.ID, "#2") {
					labs = append(labs, r.Only(i))
				}
			}
		}
	}
	return labs, omitted
}

// A row is what came of the attacks on a lab.
type row struct {
	lab      experiment.Lab
	target   attack.Target
	why      error // nothing was tried: it is not supported here, or there is nobody to attack
	err      error
	outcomes []attack.Outcome
	matrix   measure.Matrix // who reaches whom with honest packets, before it is attacked
	took     time.Duration
}

func attacked(t *testing.T, r *experiment.Resolved) (row row) {
	ctx := t.Context()
	row.lab = r.Labs[0]
	began := time.Now()
	defer func() { row.took = time.Since(began) }()
	failed := func(err error) {
		if errors.Is(err, errors.ErrUnsupported) {
			row.why = err
		} else {
			row.err = err
		}
	}
	if err := row.lab.Stack.Check(); err != nil {
		failed(err)
		return row
	}
	s, err := built(t, r)
	if err != nil {
		failed(err)
		return row
	}
	defer s.Close()
	if row.target, err = s.Target(); err != nil {
		row.why = err
		return row
	}
	row.matrix = s.Reach(ctx)
	row.target.Exhaustive = *all && !*sampled && row.lab.Placement == experiment.SameHost && row.lab.Pairs == 2
	if row.outcomes, err = attack.Run(ctx, row.target, attacks()); err != nil {
		failed(err)
	}
	return row
}

// building is held while a lab is built: of several at a time each would take longer, with the same limit.
var building sync.Mutex

func built(t *testing.T, r *experiment.Resolved) (*control.LiveLab, error) {
	building.Lock()
	defer building.Unlock()
	return control.Stand(t.Context(), r, &local.Deployment{
		Journals: journal.Place{Dir: t.TempDir(), Steps: catalogue.New().Steps()},
	})
}

// attacks are those that are made. To fill tables takes seconds for each lab: TestFullTable does it once.
func attacks() []attack.Attack {
	wanted := regexp.MustCompile(*which)
	return slices.DeleteFunc(threat.All(), func(a attack.Attack) bool {
		fills := a == threat.TableFull || a == threat.Starvation
		return !wanted.MatchString(string(a)) || fills && !*all && *which == ""
	})
}

// bare names the lab that is the same without a filter: it shows which attacks work at all.
func bare(l experiment.Lab) string {
	return fmt.Sprintf("%s/%s/%d", l.Stack[0].ID(), l.Placement, l.Pairs)
}

// filtered says whether a lab has a filter.
func filtered(l experiment.Lab) bool {
	f, _ := filter.Of(l.Stack)
	return f != nil
}

// ci are the labs that are attacked in CI: every network and every filter, and what was found to be open once. Those
// with a filter have turns ([testnet.IsTurn]).
func ci() []string {
	return []string{
		"host/same-host/2",
		"bridge+nftables/same-host/2", "bridge+nftables(antispoof=true)/same-host/2",
		"bridge+nftables(match=set,table=netdev)/same-host/3",
		"bridge+ipset/cross-host/2", "bridge+ebpf(match=program)/cross-host/3",
		"routed+iptables(variant=legacy)/cross-host/2", "routed(gateway=proxy-arp)+nftables(match=map)/same-host/3",
		"nat(hairpin=true)+ipset(stateful=true,variant=legacy)/same-host/2",
		"nat+nftables(stateful=true,match=map)/cross-host/3",
		"macvlan+nftables(match=set)/same-host/2", "macvlan(mode=passthru)+iptables/cross-host/2",
		"ipvlan+nftables/same-host/2", "ipvlan(mode=l3)+nftables/cross-host/2",
		"passthrough+iptables(stateful=true)/cross-host/3",
		"overlay/same-host/2", "overlay/cross-host/3",
		"ovs/cross-host/2", "ovs+ovs/cross-host/3", "ovs+ovs(antispoof=true)/same-host/2",
		"ovs(flows=explicit)+ovs(stateful=true)/cross-host/2",
		"ebpf+ebpf/cross-host/2", "ebpf+ebpf(antispoof=true)/same-host/2",
		"ebpf(attach=tc)+ebpf(stateful=true,match=lpm)/same-host/3", "ebpf(attach=xdp)/same-host/2",
		"cni+nftables(antispoof=true)/same-host/2", "cni(plugin=ptp)+iptables/cross-host/2",
		"cni(plugin=host-device)+nftables/same-host/2",
	}
}

func TestMatrix(t *testing.T) {
	testnet.Root(t)
	labs, omitted := stacks(t)
	if len(labs) == 0 {
		t.Fatalf("there is no network %s", *on)
	}
	chosen := labs
	switch {
	case *only != "":
		wanted := regexp.MustCompile(*only)
		like := map[string]bool{}
		for _, r := range labs {
			if wanted.MatchString(r.Labs[0].ID) {
				like[bare(r.Labs[0])] = true
			}
		}
		chosen = slices.DeleteFunc(slices.Clone(labs), func(r *experiment.Resolved) bool {
			l := r.Labs[0]
			return !wanted.MatchString(l.ID) && (filtered(l) || !like[bare(l)])
		})
	case !*all:
		chosen = nil
		for _, id := range ci() {
			i := slices.IndexFunc(labs, func(r *experiment.Resolved) bool { return r.Labs[0].ID == id })
			if i < 0 {
				t.Fatalf("there is no lab %s", id)
			}
			if !filtered(labs[i].Labs[0]) || testnet.IsTurn(id) {
				chosen = append(chosen, labs[i])
			}
		}
	}
	began := time.Now()
	rows := make([]row, len(chosen))
	var group sync.WaitGroup
	next := make(chan int)
	for range *workers {
		group.Go(func() {
			for i := range next {
				rows[i] = attacked(t, chosen[i])
				if *all {
					flaws := rows[i].flaws()
					said := fmt.Sprintf("%d of %d: %s, %.1f s, %d flaws", i+1, len(chosen), rows[i].lab.ID, rows[i].took.Seconds(),
						len(flaws))
					fmt.Fprintln(os.Stderr, strings.Join(append([]string{said}, flaws...), "\n    "))
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
		text := written(rows, omitted, time.Since(began))
		if *table == "-" {
			fmt.Print(text)
		} else if err := os.WriteFile(*table, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range rows {
		t.Run(r.lab.ID, func(t *testing.T) {
			switch {
			case errors.Is(r.why, attack.ErrShared):
				t.Log(r.why)
			case *all && r.why != nil:
				t.Log(r.why) // the table says so
			default:
				testnet.Skip(t, r.why)
			}
			for _, flaw := range append(r.flaws(), unshown(rows, r)...) {
				t.Error(flaw)
			}
		})
	}
}

// flaws are what did not hold of a lab, in words.
func (r *row) flaws() []string {
	if r.err != nil {
		return []string{r.err.Error()}
	}
	flaws := r.reached()
	for _, o := range r.outcomes {
		if o.Failed != "" {
			flaws = append(flaws, fmt.Sprintf("%s, %s: %s", o.Attack, o.Family, o.Failed))
		}
		for _, m := range o.Missing {
			flaws = append(flaws, fmt.Sprintf("%s, %s: allowed, and does not arrive: %s", o.Attack, o.Family, m))
		}
		if r.target.Claims.Claimed(o.Attack) && o.Arrived > 0 {
			flaws = append(flaws, fmt.Sprintf("%s, %s: %d of %d get through:\n\t%s", o.Attack, o.Family, o.Arrived, o.Sent,
				strings.Join(o.Holes, "\n\t")))
		}
	}
	return flaws
}

// reached wants what is on the list of a lab to arrive, and nothing else, with honest packets too. Without a filter
// everything is open: so the tries work.
func (r *row) reached() (flaws []string) {
	m := r.matrix
	if m.Lab == "" {
		return nil // it could not be tried, and the reason is reported
	}
	tried, of := m.All()
	if m.NotTried != "" || m.Untold != "" || tried == 0 || tried != of {
		flaws = append(flaws, fmt.Sprintf("who reaches whom: %d of %d tried; not tried: %q; cannot be told: %q",
			tried, of, m.NotTried, m.Untold))
	}
	for _, said := range slices.Concat(m.Leaks, m.Missing) {
		flaws = append(flaws, fmt.Sprintf("who reaches whom: %s (%d leaks, %d missing)", said, m.LeaksAll, m.MissingAll))
	}
	for _, kind := range []string{"icmp", "udp", "tcp-syn", "tcp-ack"} {
		if !filtered(r.lab) && m.Arrived[kind] == 0 {
			flaws = append(flaws, fmt.Sprintf("who reaches whom: without a filter no packet of %s arrives", kind))
		}
	}
	return flaws
}

// written is the table.
func written(rows []row, omitted []experiment.Omission, took time.Duration) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "lab")
	for _, a := range threat.All() {
		fmt.Fprintf(w, "\t%s", a)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprint(w, r.lab.ID)
		for _, a := range threat.All() {
			fmt.Fprintf(w, "\t%s", cell(rows, r, a))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	fmt.Fprintf(&b, "\n%d labs in %v\n", len(rows), took.Round(time.Second))
	fmt.Fprintf(&b, "\nwhat got through\n")
	for _, r := range rows {
		for _, o := range r.outcomes {
			if o.Arrived == 0 || !r.target.Claims.Claimed(o.Attack) && !filtered(r.lab) {
				continue
			}
			fmt.Fprintf(&b, "%s: %s, %s: %d of %d\n", r.lab.ID, o.Attack, o.Family, o.Arrived, o.Sent)
			for _, hole := range o.Holes {
				fmt.Fprintf(&b, "    %s\n", hole)
			}
		}
	}
	fmt.Fprintf(&b, "\nnot tried\n")
	for _, r := range rows {
		if err := errors.Join(r.why, r.err); err != nil {
			fmt.Fprintf(&b, "%s: %v\n", r.lab.ID, err)
		}
	}
	for _, o := range omitted {
		fmt.Fprintf(&b, "%s: %s\n", o.What, o.Reason)
	}
	return b.String()
}

// cell is what came of an attack on a lab, in both families.
func cell(rows []row, r row, a attack.Attack) string {
	if r.outcomes == nil {
		return "not tried"
	}
	sum := func(r row) (arrived, sent int) {
		for _, o := range r.outcomes {
			if o.Attack == a {
				arrived, sent = arrived+o.Arrived, sent+o.Sent
			}
		}
		return arrived, sent
	}
	arrived, sent := sum(r)
	switch {
	case sent == 0:
		return "not tried"
	case arrived > 0:
		return fmt.Sprintf("%d of %d", arrived, sent)
	case filtered(r.lab) && attack.Describe(a).Control == attack.Unfiltered:
		for _, other := range rows {
			if !filtered(other.lab) && bare(other.lab) == bare(r.lab) && !other.target.Claims.Claimed(a) {
				if arrived, sent := sum(other); arrived == 0 && sent > 0 {
					return "never"
				}
			}
		}
	}
	return "refused"
}

// known says why an attack on a lab that claims to withstand it does not succeed without the filter either, "" if that
// is not known: what the network does not pass, although it does not claim that.
func known(l experiment.Lab, a attack.Attack) string {
	const (
		alone = "each link has one container, and the host takes no frame that is for another one"
		apart = "what is on a link of the host does not reach the host itself"
	)
	for _, one := range []struct {
		attack  attack.Attack
		network string
		why     string
	}{
		{threat.Stray, `routed|ebpf|cni\(plugin=ptp\)`, alone},
		{threat.Takeover, `routed|ebpf|cni\(plugin=ptp\)`, alone},
		{threat.FromHost, `macvlan|passthrough|ipvlan|cni\(plugin=(host-device|macvlan|ipvlan|vlan)\)`, apart},
	} {
		if one.attack == a && regexp.MustCompile("^(?:"+one.network+")").MatchString(l.Stack[0].ID()) {
			return one.why
		}
	}
	return ""
}

// unshown are the attacks that a lab claims to withstand and that do not succeed without its filter either, if that was
// attacked too: nothing shows that it is the filter that refuses them.
func unshown(rows []row, r row) (flaws []string) {
	for _, a := range threat.All() {
		if r.target.Claims.Claimed(a) && cell(rows, r, a) == "never" && known(r.lab, a) == "" {
			flaws = append(flaws, fmt.Sprintf("%s: it is claimed, and nothing arrives without the filter either", a))
		}
	}
	for _, control := range rows {
		if !filtered(r.lab) || filtered(control.lab) || bare(control.lab) != bare(r.lab) || control.outcomes == nil {
			continue
		}
		for _, one := range r.target.Judge(attacks(), r.outcomes, &attack.Control{
			Claims: control.target.Claims, Outcomes: control.outcomes,
		}) {
			if arrived, _ := attack.Count(one.Control); one.Verdict == attack.Untold && arrived > 0 {
				flaws = append(flaws, fmt.Sprintf("%s: it is claimed, and %s", one.Attack, one.Why))
			}
		}
	}
	return flaws
}

// What does not succeed without the filter either is no evidence, unless the reason is known or the network claims it.
func TestUnshown(t *testing.T) {
	labs, _ := stacks(t)
	made := func(id string, claims threat.Claims, outcomes ...attack.Outcome) row {
		i := slices.IndexFunc(labs, func(r *experiment.Resolved) bool { return r.Labs[0].ID == id })
		if i < 0 {
			t.Fatalf("there is no lab %s", id)
		}
		return row{lab: labs[i].Labs[0], target: attack.Target{Claims: claims}, outcomes: outcomes}
	}
	closed := func() (list []attack.Outcome) {
		for _, a := range []attack.Attack{threat.Ports, threat.Stray, threat.Router, threat.Listening} {
			list = append(list, attack.Outcome{Attack: a, Sent: 3})
		}
		return list
	}
	taken := func(sinks, sources int) []attack.Outcome {
		return []attack.Outcome{{Attack: threat.Takeover, Sent: 6, Arrived: sinks + sources, Aims: map[string]attack.Tally{
			"sink": {Sent: 3, Arrived: sinks}, "source": {Sent: 3, Arrived: sources},
		}}}
	}
	all := threat.Withstands(threat.All()...)
	rows := []row{
		made("bridge/same-host/2", threat.Withstands(threat.Router), closed()...),
		made("bridge+nftables/same-host/2", all, closed()...),
		made("bridge+ipset/same-host/2", nil, closed()...),
		made("routed/same-host/2", nil, closed()...),
		made("routed+nftables/same-host/2", all, closed()...),
		made("bridge+nftables/cross-host/2", all, closed()...), // its control was not attacked
		made("ovs/same-host/2", nil, taken(1, 0)...),
		made("ovs+ovs(antispoof=true)/same-host/2", all, taken(0, 0)...),
		made("cni(plugin=vlan)/same-host/2", nil, attack.Outcome{Attack: threat.FromHost, Sent: 3}),
		made("cni(plugin=vlan)+iptables/same-host/2", all, attack.Outcome{Attack: threat.FromHost, Sent: 3}),
	}
	const never = ": it is claimed, and nothing arrives without the filter either"
	const aim = "takeover: it is claimed, and it does not succeed on the control either against: source"
	for i, want := range [][]string{nil, {"ports", "stray"}, nil, nil, {"ports", "router"}, nil, nil, {aim}, nil, nil} {
		for k := range want {
			if want[k] != aim {
				want[k] += never
			}
		}
		if got := unshown(rows, rows[i]); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", rows[i].lab.ID, got, want)
		}
	}
}

// With -by, labs are those of networks that the runtime builds, with its containers and the filters that stand there.
// They can be built and attacked. If others reach sinks alone, what looks like an answer need not reach a source.
func TestBy(t *testing.T) {
	testnet.Root(t)
	defer func() { *by = "" }()
	for _, c := range []struct {
		by, lab string
		filters []string // labs that there are, too
	}{
		{"lxc", "bridge(by=lxc)@lxc/same-host/2", []string{
			"bridge(by=lxc)+nftables(antispoof=true)@lxc/cross-host/3", "macvlan(by=lxc,mode=vepa)+iptables@lxc/same-host/3",
		}},
		{"podman", "nat(by=podman)@podman/cross-host/2", []string{"macvlan(by=podman)+nftables@podman/same-host/3"}},
	} {
		t.Run(c.lab, func(t *testing.T) {
			*by = c.by
			labs, _ := stacks(t)
			var ids []string
			for _, r := range labs {
				id := r.Labs[0].ID
				ids = append(ids, id)
				if !strings.Contains(id, "(by="+c.by) || !strings.Contains(id, "@"+c.by+"/") {
					t.Errorf("lab %s", id)
				}
			}
			for _, id := range append(c.filters, c.lab) {
				if !slices.Contains(ids, id) {
					t.Fatalf("there is no lab %s", id)
				}
			}
			r := labs[slices.Index(ids, c.lab)]
			testnet.Skip(t, r.Labs[0].Stack.Check())
			s, err := built(t, r)
			testnet.Skip(t, err)
			defer s.Close()
			target, err := s.Target()
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range run(t, target, threat.Replies) {
				if o.Sent == 0 || len(o.Missing) > 0 {
					t.Errorf("%s: %d tries, missing: %q", o.Family, o.Sent, o.Missing)
				}
			}
		})
	}
}

// What nobody has tried is not refused, and a filter does not refuse what works nowhere.
func TestCell(t *testing.T) {
	labs, _ := stacks(t)
	made := func(id string, outcomes ...attack.Outcome) row {
		i := slices.IndexFunc(labs, func(r *experiment.Resolved) bool { return r.Labs[0].ID == id })
		if i < 0 {
			t.Fatalf("there is no lab %s", id)
		}
		return row{lab: labs[i].Labs[0], outcomes: outcomes}
	}
	of := func(a attack.Attack, arrived, sent int) attack.Outcome {
		return attack.Outcome{Attack: a, Arrived: arrived, Sent: sent}
	}
	rows := []row{
		made("bridge/cross-host/2"), // could not be built
		made("bridge+nftables/cross-host/2", of(threat.Ports, 0, 3), of(threat.Errors, 1, 3)),
		made("bridge/same-host/2", of(threat.Ports, 2, 2), of(threat.Ports, 1, 1), of(threat.Errors, 0, 3)),
		made("bridge+nftables/same-host/2", of(threat.Ports, 0, 3), of(threat.Errors, 0, 3)),
		made("bridge+ipset/same-host/2"),
	}
	want := [][]string{
		{"not tried", "not tried", "not tried"},
		{"refused", "1 of 3", "not tried"},
		{"3 of 3", "refused", "not tried"},
		{"refused", "never", "not tried"},
		{"not tried", "not tried", "not tried"},
	}
	for i, r := range rows {
		for j, a := range []attack.Attack{threat.Ports, threat.Errors, threat.Bypass} {
			if got := cell(rows, r, a); got != want[i][j] {
				t.Errorf("%s, %s: %s, want %s", r.lab.ID, a, got, want[i][j])
			}
		}
	}
}
