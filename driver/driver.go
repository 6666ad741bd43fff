package driver

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// A Driver is a program that can drive some workloads.
type Driver interface {
	// Describe returns the driver's description.
	Describe() Description
	// Serves returns nil if the driver can drive a workload with these parameters. Otherwise it returns the reason,
	// with what is possible.
	Serves(w workload.Description, p part.Params) error
	// Trial returns the shortest sound trial: the program's start, its measuring and its end. In a longer trial it
	// measures longer, by whole seconds.
	Trial(w workload.Description, p part.Params) time.Duration
	// Open opens one endpoint, as [workload.Workload] does. The calling thread is inside the container's network
	// namespace, and the sinks of a cell come first. The samples mean the same as those of the workload's own
	// endpoints, so that the workload makes the metrics of both. If the program does not support something here (an
	// IPv6 address), the error is a [linux.UnsupportedError]. A driver with SourceOnly opens only sources.
	Open(workload.Spec) (traffic.Endpoint, error)
}

// A Description describes a driver.
type Description struct {
	// Name is the word of experiment files: "sockperf".
	Name string
	// Summary is one sentence, without its full stop.
	Summary string
	// Differs is a sentence without its full stop: how the program behaves differently from nettoll's own engine, which
	// is why their figures may differ.
	Differs string
	// Program is the name that is looked up in PATH.
	Program string
	// Server is the program of sinks, if it is another.
	Server string
	// AskVersion are the arguments that make the program print its version. nil means --version.
	AskVersion []string
	// IPv4Only is true if the program does not support IPv6 addresses.
	IPv4Only bool
	// Needs lists, by workload, parameters that the program cannot drive with their defaults, and values that it can
	// drive. Tests use them.
	Needs map[string]map[string]string
	// Package is the Debian package that contains the program.
	Package string
	// SourceOnly is true if the program has no server. The sink of a pair is then the workload's own, which serves any
	// client ([Opener]).
	SourceOnly bool
}

// Opener returns what opens one end of a pair that a driver generates traffic for. This is the driver. For the sink of
// a driver without a server it is the workload, which finds the driver's name in the spec.
func Opener(d Driver, w workload.Workload, side workload.Side) func(workload.Spec) (traffic.Endpoint, error) {
	if side == workload.Sink && d.Describe().SourceOnly {
		return w.Open
	}
	return d.Open
}

// Find returns the path of a driver's program. If it is not installed, the error is a [linux.UnsupportedError] that
// names the package.
func Find(d Driver) (string, error) { return d.Describe().Locate(d.Describe().Program) }

// Locate returns the path of one of its programs, as [Find] does.
func (d Description) Locate(name string) (string, error) {
	return d.needed(name).Locate()
}

// Role begins the description of the program at one end of a pair: which program is started, by whom and where. A sink
// runs the server.
func (d Description) Role(s workload.Spec) program.Role {
	r := program.Role{By: "driver " + d.Name, Program: d.Program, Package: d.Package, Local: s.Local}
	if s.Side == workload.Sink {
		r.Program = cmp.Or(d.Server, d.Program)
	}
	return r
}

// Understands returns an error if a parameter of a workload that a driver does not know differs from its default,
// because the program always behaves as the default says. Each driver's Serves calls it with the parameters that it
// handles itself. So existing drivers refuse a new parameter of a workload instead of ignoring it.
func (d Description) Understands(w workload.Description, p part.Params, known ...string) error {
	for _, param := range w.Params {
		if p[param.Name] != param.Default && !slices.Contains(known, param.Name) {
			return fmt.Errorf("driver %s cannot drive %s with %s %q (valid: %s %s)", d.Name, w.Name, param.Name,
				p[param.Name], param.Name, param.Default)
		}
	}
	return nil
}

// Programs returns the programs that the endpoints of a side start. The server is not asked for its version, which is
// that of the source's program.
func (d Description) Programs(side workload.Side) []program.Needed {
	n := d.needed(d.Program)
	switch {
	case side == workload.Source:
	case d.SourceOnly:
		return nil
	case d.Server != "":
		n.Program, n.Unasked = d.Server, true
	}
	return []program.Needed{n}
}

func (d Description) needed(name string) program.Needed {
	return program.Needed{By: "driver " + d.Name, Program: name, Package: d.Package, AskVersion: d.AskVersion}
}
