package deploy

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

// A Deployment is a place for labs. Its methods may be called from several goroutines.
type Deployment interface {
	// CPUs returns the numbers of the CPUs that workers of a host may use.
	CPUs(ctx context.Context) ([]int, error)
	// Machines returns the machines of labs with this number of hosts, that of host 1 first. Each of them is listed once,
	// with all of its hosts. All but the first have names.
	Machines(ctx context.Context, hosts int) ([]Machine, error)
	// Check asks hosts like those that would do the work whether labs can be built here. It returns an error for each
	// lab, nil if the lab can be built, and a [linux.UnsupportedError] if something is missing. It changes nothing. The
	// last error means that no host could be asked.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Check(ctx context.Context, labs []Spec) ([]error, error)
	// Programs asks hosts like those that would do the work for programs, and returns an answer for each. It changes
	// nothing. The error means that no host could be asked.
	Programs(ctx context.Context, wanted []Wanted) ([]Found, error)
	// Watch begins to observe the machines. The returned function ends that and reports how busy each machine was; it
	// leaves out what it cannot read.
	Watch() (end func() []Load, err error)
	// Awake keeps the CPUs of the machines from sleeping. The returned function ends that, so that they sleep as
	// before, and returns the share of the time for which they slept nevertheless. The error is a
	// [linux.UnsupportedError] if something is missing.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Awake() (end func() (asleep float64, err error), err error)
	// LoadProbe loads a probe on the machines, switched off. Workers of generations that begin while it is loaded read
	// its counters. The error is a [linux.UnsupportedError] if something is missing.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	LoadProbe(p probe.Probe) (LoadedProbe, error)
	// Begin makes the turn of a generation's workers.
	Begin(l traffic.Layout) (Generation, error)
	// Close releases what labs have shared, after all labs are closed. It is idempotent. The error lists what could not
	// be released.
	Close() error
}

// A Standing deployment has hosts that stand without it, such as nodes of a cluster. Labs do not configure them, and
// all of them share their namespaces.
type Standing interface {
	Deployment
	// AsBuilt says what [Lab.Verify] finds if nothing differs, as a sentence without its full stop.
	AsBuilt() string
}

// A Machine is a machine on which hosts are.
type Machine struct {
	Name  string   // "" for the machine of this process, if host 1 is on it
	Hosts []string // "host1", in order
	// Facts are for the records, as values that JSON can hold: kernel, CPUs, limits, privileges.
	Facts map[string]any
}

// A Wanted is a program that workers start on a host.
type Wanted struct {
	Host int // from 1
	program.Needed
}

// Found is what a host answers about a program.
type Found struct {
	Version string // "" if the program must not be started for that
	// Err is nil if the program is installed, and a [linux.UnsupportedError] if it is not. It names the host unless all
	// hosts have the files of one machine.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Err error
}

// A LoadedProbe is a probe that is loaded on all machines. No other one is loaded meanwhile.
type LoadedProbe interface {
	// On switches it on everywhere, and Off switches it off. A second call changes nothing.
	On() error
	Off() error
	// Close switches it off and removes it. It is idempotent, and may be called after the deployment was closed.
	Close() error
}

// A Generation is a set of labs whose workers share one turn.
type Generation interface {
	// Turns is the controller's end of the turn. It ends with the generation.
	Turns() traffic.Turns
	// Build builds a lab. It may be called from several goroutines, and again for a lab that was closed. If ctx ends or
	// a host fails, nothing of the lab is left.
	Build(ctx context.Context, s Spec) (Lab, error)
	// Close ends the turn, after all labs are closed.
	Close() error
}

// A Spec describes a lab to build, as data.
type Spec struct {
	ID   string // "bridge+nftables/cross-host/2"
	Mark string // distinguishes the lab from all others of the run
	// Stack is complete.
	Stack stack.Stack
	// Net has the hosts with their containers and ports, the MTU, the seed and the underlay.
	Net network.Lab
	// Pairs are the containers that talk, and Families are their address families.
	Pairs    []network.Pair
	Families []string
}

// A Lab exists until it is closed.
type Lab interface {
	// Site describes its containers: the endpoints, the MTU and the ports that they have. A sink that others reach at its
	// host ([network.HostPublisher]) may have other ports than the spec says, and as many: those that the host gives it.
	Site() *network.Site
	// Waited returns how much of the building time was spent waiting for other labs, or measuring costs.
	Waited() time.Duration
	// Reports are the reports of the hosts after the lab was built, host 1 first.
	Reports() []host.Report
	// Start starts a worker on a host, which counts from 1.
	Start(ctx context.Context, on int, w host.WorkerSpec) (host.Worker, error)
	// Verify asks the hosts whether the lab still is what was planned, see [host.DriftError]. A [LostError] says that
	// nothing differs but that something has gone, or that nobody could be asked.
	Verify(ctx context.Context) error
	// Died returns which host or program of the lab has ended by itself, or which program a signal has stopped; "" for
	// none.
	Died(ctx context.Context) string
	// Logs returns the output of the programs of the hosts.
	Logs(ctx context.Context) ([]Log, error)
	// Trace asks the underlay, which comes first, and each host which path packets take, and how many were counted.
	Trace(ctx context.Context, q []host.Question) ([]host.Trace, error)
	// Close ends everything in the lab. It is idempotent.
	Close()
}

// A LostError says that a lab has lost a part which others end, such as a pod that was evicted, or that nobody could be
// asked. It says nothing about the stack.
type LostError struct{ Err error }

func (e *LostError) Error() string { return e.Err.Error() }

// Unwrap returns what was lost.
func (e *LostError) Unwrap() error { return e.Err }

// A Metered lab is on machines whose counters the turn reads before and after each trial ([traffic.Timing.Metered]).
type Metered interface {
	Lab
	// Meters returns the machines of the hosts of the lab, that of host 1 first. It is nil if nobody reads them.
	Meters() []Metering
}

// A Tapped lab has hosts that can listen to what they get from each other.
type Tapped interface {
	Lab
	// Tap begins to listen for frames that hold a mark. It reports false if nobody can listen, or nothing is between
	// hosts.
	Tap(ctx context.Context, mark []byte) (bool, error)
	// Heard ends that and returns the frames that hosts have got by the links to each other.
	Heard(ctx context.Context) ([]Heard, error)
	// Encrypted says what should encrypt packets between containers on different hosts; "" if nothing is known to.
	Encrypted() string
}

// Heard is what a host has heard.
type Heard struct {
	Host    string // "host1"
	Machine string // as in [Machine]
	Frames  []host.Frames
}

// Metering is what must be known of the machine of a host to read what it has counted.
type Metering struct {
	Machine string // as in [traffic.Metered]
	// Links are the containers, by the names of the devices of the machine that lead to nothing else.
	Links map[string]string
}

// A Log is the output of a program of a host.
type Log struct {
	Host, Program string
	Text          string
}

// A Used lab can report the resources that the programs of its hosts use.
type Used interface {
	Lab
	// Use returns what the programs have used so far, including those of the underlay.
	Use(ctx context.Context) ([]Use, error)
}

// A Contained lab can report what its containers with workers have used.
type Contained interface {
	Lab
	// ContainerUse returns what they have used so far.
	ContainerUse(ctx context.Context) ([]ContainerUse, error)
}

// ContainerUse is what a container of a host has used so far.
type ContainerUse struct {
	Host string // its name
	host.ContainerUse
}

// A Watched lab notices what changes in the namespaces of its hosts while it is measured.
type Watched interface {
	Lab
	// Watch begins to watch, or begins again. With announce it goes on: what the lab itself has started is known.
	Watch(ctx context.Context, announce bool) error
	// Audit returns what has changed since the last audit, of the hosts in order, that of the underlay last. With all
	// nothing is left for the next audit to look at.
	Audit(ctx context.Context, all bool) ([]Audit, error)
}

// An Audit is what has changed on a host.
type Audit struct {
	Host string // its name
	host.Audit
}

// Use is the resource use of a program of a host so far.
type Use struct {
	Host string // its name
	host.ProgramUse
}

// An Enterable lab has hosts that this process can enter.
type Enterable interface {
	Lab
	// Places returns the hosts, and then the underlay, if there is one.
	Places() []Place
}

// A Place is a host that can be entered.
type Place interface {
	// Name returns the name of the host: "host1", "underlay".
	Name() string
	// Plan returns the plan that was applied to it.
	Plan() host.Plan
	// Verify checks that the kernel of the host still matches the plan.
	Verify(ctx context.Context) error
	// Exec runs a program on the host until it ends, see [host.Command].
	Exec(ctx context.Context, c host.Command) (host.Output, error)
	// Namespace opens a network namespace of the host by its name; "" is the host's own. The caller closes the file.
	Namespace(name string) (*os.File, error)
	// Run runs a command on the host, in one of its network namespaces, until it ends. It calls started when the
	// command runs. With terminal, its standard input is a terminal, which becomes its controlling terminal.
	Run(cmd *exec.Cmd, namespace string, terminal bool, started func(*os.Process)) error
}

// Load is how busy a machine was.
type Load struct {
	Machine  string             // as in [Machine]
	CPU      map[string]float64 // cores by mode, as in measure.BlockFacts
	Load1    float64            // load average over a minute
	Programs []procfs.User      // that do not belong to this run
	Runs     map[int]string     // command lines of other runs of nettoll, by PID
	Memory   int64              // in use at the end, in bytes; 0: not known
	Softirqs float64            // of the network, per second; 0: not known
}
