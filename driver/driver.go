package driver

import (
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// A Driver is a program that can drive some workloads.
type Driver interface {
	// Describe says what it is.
	Describe() Description
	// Serves returns nil where it can drive a workload with these parameters, and else the reason why not, with what would be possible.
	Serves(w workload.Description, p part.Params) error
	// Trial is the shortest sound trial: the program's start, its measuring and its end.
	Trial(w workload.Description, p part.Params) time.Duration
	// Open opens one endpoint, as [workload.Workload] does: the calling thread is inside the container's network namespace, sinks of a cell
	// come first. Its samples mean what those of the workload's own endpoints mean, so that the workload makes the metrics of both.
	Open(workload.Spec) (traffic.Endpoint, error)
}

// A Description says what a driver is.
type Description struct {
	// Name is the word of experiment files: "sockperf".
	Name string
	// Summary is one sentence, without its full stop.
	Summary string
	// Program is what is looked up in PATH.
	Program string
	// Package is what Debian calls the package that holds it.
	Package string
}
