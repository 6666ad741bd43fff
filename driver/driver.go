package driver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
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
	// Trial is the shortest sound trial: the program's start, its measuring and its end. In a longer trial it measures longer, by whole
	// seconds.
	Trial(w workload.Description, p part.Params) time.Duration
	// Open opens one endpoint, as [workload.Workload] does: the calling thread is inside the container's network namespace, sinks of a cell
	// come first. Its samples mean what those of the workload's own endpoints mean, so that the workload makes the metrics of both. What the
	// program cannot do here (an address of IPv6) is a [linux.UnsupportedError].
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
	// IPv4Only says that it cannot use addresses of IPv6.
	IPv4Only bool
	// Package is what Debian calls the package that holds it.
	Package string
}

// Find returns the path of a driver's program. Where it is not installed the error is a [linux.UnsupportedError] that names the package.
func Find(d Driver) (string, error) { return d.Describe().find() }

func (d Description) find() (string, error) {
	path, err := exec.LookPath(d.Program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", &linux.UnsupportedError{
			What: "use driver " + d.Name, Missing: fmt.Sprintf("program %q", d.Program), Hint: "apt-get install " + d.Package,
		}
	}
	if err != nil {
		return "", fmt.Errorf("find program %q of driver %s: %w", d.Program, d.Name, err)
	}
	return path, nil
}

// versionLimit is how long a program may take to say its version.
const versionLimit = 5 * time.Second

// Version returns the version of a driver's program, as it says itself: "3.12". Where it is not installed the error is that of [Find].
func Version(ctx context.Context, d Driver) (string, error) {
	path, err := Find(d)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", d.Describe().Program, err)
	}
	return version(d.Describe().Program, out)
}

// version finds the first word that begins like a version: "sockperf, version 3.7-no.git", "iperf 3.12 (cJSON 1.7.15)".
func version(program string, out []byte) (string, error) {
	m := regexp.MustCompile(`(?:^|\s)v?([0-9]+\.[0-9][^\s,;]*)`).FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("ask %s for its version: none in %.100q", program, out)
	}
	return string(m[1]), nil
}
