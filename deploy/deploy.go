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
)

// A Deployment is a place where labs stand. Its methods may be called from several goroutines.
type Deployment interface {
	// CPUs returns the numbers of the CPUs that workers of a host may use.
	CPUs() ([]int, error)
	// Facts returns what records say of the machines, as JSON can hold it: kernel, CPUs, limits, privileges.
	Facts() map[string]any
	// Check asks hosts like those that would do the work why labs cannot stand here: an error for each lab, nil if it
	// can, and a [linux.UnsupportedError] if something is missing. It changes nothing. The last error says that nobody
	// could be asked.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Check(ctx context.Context, labs []Spec) ([]error, error)
	// Watch begins to watch the machines. The function that it returns ends that and says how busy each was meanwhile;
	// what cannot be read then is left out.
	Watch() (end func() []Load, err error)
	// Awake keeps the CPUs of the machines from sleeping. The function that it returns ends that, so that they sleep as
	// before, and says for what share of the time they slept all the same. The error is a [linux.UnsupportedError] if
	// something is missing.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Awake() (end func() (asleep float64, err error), err error)
	// Begin makes the turn of a generation's workers.
	Begin(l Layout) (Generation, error)
	// Close ends what labs have shared, when all are closed. It is idempotent. The error says what was not given back.
	Close() error
}

// A Layout describes what the workers of a generation take part in.
type Layout struct {
	traffic.Layout
	// Probe is the name of the probe whose counts the workers read, and Loaded the probe; nil where nothing is probed.
	Probe  string
	Loaded probe.Loaded
}

// A Generation is labs whose workers pass one turn on to each other.
type Generation interface {
	// Turns is the controller's end of the turn. It ends with the generation.
	Turns() traffic.Turns
	// Build builds a lab. It may be called from several goroutines, and again for a lab that was closed. If ctx ends or a
	// host fails, nothing is left of the lab.
	Build(ctx context.Context, s Spec) (Lab, error)
	// Close ends the turn, when all labs are closed.
	Close() error
}

// A Spec describes a lab to build, as data.
type Spec struct {
	ID   string // "bridge+nftables/cross-host/2"
	Mark string // tells the lab from all others of the run
	// Stack is complete.
	Stack stack.Stack
	// Net has the hosts with their containers and ports, the MTU, the seed and the underlay.
	Net network.Lab
	// Pairs are the containers that talk, Families the address families in which they do.
	Pairs    []network.Pair
	Families []string
}

// A Lab exists until it is closed.
type Lab interface {
	// Site is where its containers are: the endpoints, and the MTU that they have got.
	Site() *network.Site
	// Waited is how much of the time that building took was spent on other labs, or on what is told.
	Waited() time.Duration
	// Reports are the reports of the hosts after the lab was built, host 1 first.
	Reports() []host.Report
	// Start starts a worker on a host, which counts from 1.
	Start(ctx context.Context, on int, w host.WorkerSpec) (host.Worker, error)
	// Verify asks the hosts whether the lab still is what was planned, see [host.DriftError].
	Verify(ctx context.Context) error
	// Died says which host or program of the lab has ended by itself, "" for none.
	Died(ctx context.Context) string
	// Logs returns what the programs of the hosts have said.
	Logs(ctx context.Context) ([]Log, error)
	// Trace asks the underlay, which is the first, and each host which way packets go, and how many were counted.
	Trace(ctx context.Context, q []host.Question) ([]host.Trace, error)
	// Close ends everything in the lab. It is idempotent.
	Close()
}

// A Log is the output of a program of a host.
type Log struct {
	Host, Program string
	Text          string
}

// A Used lab knows what the programs of its hosts use.
type Used interface {
	Lab
	// Use returns what they have used so far, those of the underlay too.
	Use(ctx context.Context) ([]Use, error)
}

// Use is what a program of a host has used so far.
type Use struct {
	Host string // its name
	host.ProgramUse
}

// An Enterable lab has hosts that can be entered from this process.
type Enterable interface {
	Lab
	// Places are the hosts, and the underlay, which is the last one if there is one.
	Places() []Place
}

// A Place is a host that can be entered.
type Place interface {
	// Name is that of the host: "host1", "underlay".
	Name() string
	// Plan is what was applied to it.
	Plan() host.Plan
	// Verify asks the kernel of the host whether it still agrees with the plan.
	Verify(ctx context.Context) error
	// Exec runs a program on the host to its end, see [host.Command].
	Exec(ctx context.Context, c host.Command) (host.Output, error)
	// Namespace opens a network namespace of the host by its name, "" for its own. The file is the caller's to close.
	Namespace(name string) (*os.File, error)
	// Run runs a command to its end on the host, in one of its network namespaces, and calls started when it runs. With
	// terminal its standard input is one, which becomes its own.
	Run(cmd *exec.Cmd, namespace string, terminal bool, started func(*os.Process)) error
}

// Load is how busy a machine was.
type Load struct {
	Machine  string             // "" for that of this process
	CPU      map[string]float64 // cores by mode, as in measure.BlockFacts
	Load1    float64            // load average over a minute
	Programs []procfs.User      // that are not of this run
	Runs     map[int]string     // command lines of other runs of nettoll, by process
}
