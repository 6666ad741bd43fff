package driver

import (
	"cmp"
	"context"
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
	// Describe says what it is.
	Describe() Description
	// Serves returns nil where it can drive a workload with these parameters, and else the reason why not, with what would
	// be possible.
	Serves(w workload.Description, p part.Params) error
	// Trial is the shortest sound trial: the program's start, its measuring and its end. In a longer trial it measures
	// longer, by whole seconds.
	Trial(w workload.Description, p part.Params) time.Duration
	// Open opens one endpoint, as [workload.Workload] does: the calling thread is inside the container's network
	// namespace, sinks of a cell come first. Its samples mean what those of the workload's own endpoints mean, so that the
	// workload makes the metrics of both. What the program cannot do here (an address of IPv6) is a
	// [linux.UnsupportedError]. Of a driver with SourceOnly only sources are asked for.
	Open(workload.Spec) (traffic.Endpoint, error)
}

// A Description describes a driver.
type Description struct {
	// Name is the word of experiment files: "sockperf".
	Name string
	// Summary is one sentence, without its full stop.
	Summary string
	// Differs says, in a sentence without its full stop, what its program does otherwise than nettoll's own engine, and so
	// why their figures may differ.
	Differs string
	// Program is what is looked up in PATH.
	Program string
	// Server is the program of sinks, where it is another.
	Server string
	// AskVersion are the arguments with which the program says its version; nil: --version.
	AskVersion []string
	// IPv4Only says that it cannot use addresses of IPv6.
	IPv4Only bool
	// Needs are, by workload, parameters that it cannot drive with their defaults, and values with which it can, for who
	// tries it.
	Needs map[string]map[string]string
	// Package is what Debian calls the package that holds it.
	Package string
	// SourceOnly says that it has no server: the sink of a pair is the workload's own, which serves whoever connects
	// ([Opener]).
	SourceOnly bool
}

// Opener returns what opens one end of a pair whose traffic a driver makes: the driver, or for the sink of one that has
// no server the workload, which finds the driver's name in the spec.
func Opener(d Driver, w workload.Workload, side workload.Side) func(workload.Spec) (traffic.Endpoint, error) {
	if side == workload.Sink && d.Describe().SourceOnly {
		return w.Open
	}
	return d.Open
}

// Find returns the path of a driver's program. Where it is not installed the error is a [linux.UnsupportedError] that
// names the package.
func Find(d Driver) (string, error) { return d.Describe().Locate(d.Describe().Program) }

// Locate does the same for one of its programs.
func (d Description) Locate(name string) (string, error) {
	return d.needed(name).Locate()
}

// Role begins what one end of a pair runs: it says which program is started, by whom and where. A sink runs the server.
func (d Description) Role(s workload.Spec) program.Role {
	r := program.Role{By: "driver " + d.Name, Program: d.Program, Package: d.Package, Local: s.Local}
	if s.Side == workload.Sink {
		r.Program = cmp.Or(d.Server, d.Program)
	}
	return r
}

// Understands refuses the parameters of a workload that a driver does not know where they do not have their default:
// that is what its program does. Each driver's Serves calls it with those it looks at itself. So a parameter that a
// workload gets is refused, and not ignored, by the drivers written before.
func (d Description) Understands(w workload.Description, p part.Params, known ...string) error {
	for _, param := range w.Params {
		if p[param.Name] != param.Default && !slices.Contains(known, param.Name) {
			return fmt.Errorf("driver %s cannot drive %s with %s %q (valid: %s %s)", d.Name, w.Name, param.Name,
				p[param.Name], param.Name, param.Default)
		}
	}
	return nil
}

// Version returns the version of a driver's program, as it says itself: "3.12". Where it is not installed the error is
// that of [Find].
func Version(ctx context.Context, d Driver) (string, error) {
	about := d.Describe()
	return about.needed(about.Program).Version(ctx)
}

func (d Description) needed(name string) program.Needed {
	return program.Needed{By: "driver " + d.Name, Program: name, Package: d.Package, AskVersion: d.AskVersion}
}
