package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// A Lack is a workload that cannot be measured, because a host lacks a program that it starts there.
type Lack struct {
	experiment.Omission
	Err error // a [linux.UnsupportedError]
}

// Programs asks the hosts of a deployment for the programs that an experiment starts there, before anything is built.
// It returns their versions for the record, by the names of drivers or programs, and the workloads that lack one, by
// their places in the experiment.
func Programs(ctx context.Context, r *experiment.Resolved, at deploy.Deployment) (versions map[string]string,
	lacks map[int]Lack, err error,
) {
	var q inquiry
	for i := range r.Cells {
		q.add(r, i)
	}
	found, err := at.Programs(ctx, q.wanted)
	if err != nil {
		return nil, nil, err
	}
	versions, lacks = map[string]string{}, map[int]Lack{}
	for i, c := range r.Cells {
		if _, known := lacks[c.Asked]; q.none[i] != nil && !known {
			lacks[c.Asked] = lackOf(c, q.none[i])
		}
		for _, k := range q.cells[i] {
			if err := found[k].Err; err != nil {
				if _, missing := errors.AsType[*linux.UnsupportedError](err); !missing {
					return nil, nil, err
				}
				if _, known := lacks[c.Asked]; !known {
					lacks[c.Asked] = lackOf(c, err)
				}
				break
			}
		}
	}
	for k, f := range found {
		name := q.names[k]
		switch other := versions[name]; {
		case f.Version == "" || f.Version == other:
		case other == "":
			versions[name] = f.Version
		default:
			versions[fmt.Sprintf("%s on %s", name, network.Host{Index: q.wanted[k].Host}.Name())] = f.Version
		}
	}
	return versions, lacks, nil
}

func lackOf(c experiment.Cell, err error) Lack {
	what := c.Workload.Describe().ID(c.Params)
	if len(c.Mix) > 0 {
		what = "mix(" + strings.Join(c.Mix, ",") + ")"
	}
	return Lack{experiment.Omission{What: what, Reason: err.Error()}, err}
}

// notInside says that a program cannot be started in the containers of a stack.
func notInside(s stack.Stack, n program.Needed) error {
	r, _, _ := stack.PartOf[runtime.Runtime](s)
	return &linux.UnsupportedError{
		What: "start " + n.Program + " in a container",
		Missing: fmt.Sprintf("program %q in containers of runtime %s, which hold nettoll alone", n.Program,
			r.Describe().Name),
		Hint: "choose driver=nettoll and embedded servers, or runtime netns",
	}
}

// An inquiry lists what is asked of hosts, each program of a host once.
type inquiry struct {
	wanted []deploy.Wanted
	names  []string       // of those, in the record
	cells  [][]int        // of each cell, those that it needs
	none   []error        // of each cell: why no host has to be asked, nil for most
	known  map[string]int // by host and program: the place in wanted
}

// add adds what a cell needs: its driver's programs first, then those of its workload.
func (q *inquiry) add(r *experiment.Resolved, cell int) {
	c := r.Cells[cell]
	about := c.Workload.Describe()
	var places []int
	bare := runtime.Bare(r.Labs[c.Lab].Stack)
	var none error
	need := func(side workload.Side, name string, list []program.Needed) {
		if bare && len(list) > 0 {
			none = notInside(r.Labs[c.Lab].Stack, list[0])
			return
		}
		for _, host := range hostsOf(r, c, side) {
			for _, n := range list {
				places = append(places, q.place(deploy.Wanted{Host: host, Needed: n}, name))
			}
		}
	}
	for _, side := range []workload.Side{workload.Source, workload.Sink} {
		if c.Driver != nil {
			need(side, c.Driver.Describe().Name, c.Driver.Describe().Programs(side))
		}
	}
	for _, side := range []workload.Side{workload.Source, workload.Sink} {
		if c.Driver == nil || side == workload.Sink && c.Driver.Describe().SourceOnly {
			need(side, "", about.Needs(c.Params, side))
		}
	}
	q.cells, q.none = append(q.cells, places), append(q.none, none)
}

// place returns where in the list a program is, which is added if it is new. Without a name it is recorded under its
// own.
func (q *inquiry) place(w deploy.Wanted, name string) int {
	key := fmt.Sprintf("%s %+v", name, w)
	if k, known := q.known[key]; known {
		return k
	}
	if q.known == nil {
		q.known = map[string]int{}
	}
	if name == "" {
		name = w.Program
	}
	k := len(q.wanted)
	q.known[key] = k
	q.wanted, q.names = append(q.wanted, w), append(q.names, name)
	return k
}

// hostsOf returns the hosts, from 1, on which a side of a cell's pairs is.
func hostsOf(r *experiment.Resolved, c experiment.Cell, side workload.Side) []int {
	l := r.Labs[c.Lab]
	seen := make([]bool, l.Hosts+1)
	for pair := range l.Pairs {
		switch {
		case !c.Has(pair):
		case side == workload.Source:
			seen[l.SourceHost(pair)] = true
		default:
			seen[l.SinkHost(pair)] = true
		}
	}
	var hosts []int
	for host, is := range seen {
		if is {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
