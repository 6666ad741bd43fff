package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/idle"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/linux/userns"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/board"
	"github.com/nettoll/nettoll/traffic/remote"
)

// A Deployment builds labs in namespaces of this machine. A host is a PID 1 in namespaces of its own, and the underlay
// is one more. Turns pass in memory that all of them share. Set its fields before use.
type Deployment struct {
	// Journals is the place of the journals for things that outlive labs.
	Journals journal.Place
	// Executable and Env are those of [Options].
	Executable string
	Env        []string
	// Called makes turns pass by calls to the workers, as between machines, for what there is no memory to share. It is
	// slower.
	Called bool

	tidied  sync.Once
	mu      sync.Mutex
	journal *journal.Journal // of this run; nil until a lab takes something that outlives it
	probe   *loadedProbe     // nil: none is loaded
	joined  map[int]uint64   // processes of labs that are not below this one, with the time of their start

	// alone is held exclusively by a lab whose rules or entries are loaded and changed, and shared by all others. The
	// reason is that memory is measured machine-wide, and that other labs would use the same CPUs.
	alone sync.RWMutex
}

var _ deploy.Deployment = (*Deployment)(nil)

// CPUs returns the CPUs of this process.
func (d *Deployment) CPUs(context.Context) ([]int, error) { return thread.CPUs() }

// Machines returns this machine, with facts about it and about the privileges of this process.
func (d *Deployment) Machines(_ context.Context, hosts int) ([]deploy.Machine, error) {
	facts := procfs.Machine()
	if facts["user_namespace"] = userns.Inside(); userns.Inside() {
		facts["not_granted"] = userns.Refused()
	}
	if value, known := procfs.KernelOption("CONFIG_IRQ_TIME_ACCOUNTING"); known {
		// if set, the run time of a thread does not include the softirqs that interrupt it
		facts["irq_time_accounting"] = value == "y"
	}
	m := deploy.Machine{Facts: facts}
	for i := range hosts {
		m.Hosts = append(m.Hosts, network.Host{Index: i + 1}.Name())
	}
	return []deploy.Machine{m}, nil
}

// Check starts a host and asks it. The host inherits the namespace of the machine, to look for what labs take from
// there. It does not if this is a user namespace: then nothing can be taken, and the machine's namespace cannot be
// entered.
func (d *Deployment) Check(ctx context.Context, labs []deploy.Spec) ([]error, error) {
	files := map[string]*os.File{}
	if !userns.Inside() {
		machine, err := netns.Current()
		if err != nil {
			return nil, err
		}
		defer machine.Close()
		files[machineFile] = machine
	}
	h, err := d.start(ctx, "host1", files, !userns.Inside())
	if err != nil {
		return nil, err
	}
	defer h.Close()
	answers := make([]error, len(labs))
	known := map[deploy.Question]error{}
	borrowed := map[string]string{} // by what is taken from the machine: the lab that takes it
	for i, l := range labs {
		q := l.Question()
		answer, asked := known[q]
		if !asked {
			if answer, err = refused(h.Check(ctx, q, nil)); err != nil {
				return nil, err
			}
			if answer == nil {
				answer = l.Stack.CheckOutside(ctx)
			}
			known[q] = answer
		}
		for _, thing := range deploy.Borrowed(l.Stack) {
			if other := borrowed[thing]; other != "" && answer == nil {
				answer = fmt.Errorf("%s is already used by lab %s, and all labs stand at once (measure one of them alone)",
					thing, other)
			}
			borrowed[thing] = l.ID
		}
		answers[i] = answer
	}
	return answers, nil
}

// refused returns an answer of a host as it is on every host of this machine, without the name of the host. If the host
// gave none, it returns the error as err.
func refused(answer error) (_, err error) {
	if r, ok := errors.AsType[*protocol.Error](answer); ok {
		return r, nil
	}
	return nil, answer
}

// Programs starts a host and asks it. All hosts have the files of this machine: each program is looked up once.
func (d *Deployment) Programs(ctx context.Context, wanted []deploy.Wanted) ([]deploy.Found, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	h, err := d.start(ctx, "host1", nil, false)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	answers := make([]deploy.Found, len(wanted))
	known := map[string]deploy.Found{} // by program
	for i, w := range wanted {
		key := fmt.Sprintf("%+v", w.Needed)
		answer, asked := known[key]
		if !asked {
			answer.Err = h.Check(ctx, deploy.Question{Program: &w.Needed}, &answer.Version)
			if answer.Err, err = refused(answer.Err); err != nil {
				return nil, err
			}
			known[key] = answer
		}
		answers[i] = answer
	}
	return answers, nil
}

// machineFile is the name of the inherited file of the machine's namespace, see host.Machine.
const machineFile = "netns:machine"

// Awake holds /dev/cpu_dma_latency open.
func (d *Deployment) Awake() (func() (float64, error), error) {
	held, err := idle.Hold()
	if err != nil {
		return nil, err
	}
	if held == nil { // they never sleep
		return func() (float64, error) { return 0, nil }, nil
	}
	root := os.DirFS("/")
	cpus, err := thread.CPUs()
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	before, err := idle.Asleep(root, cpus)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	began := clock.Now()
	return func() (float64, error) {
		after, err := idle.Asleep(root, cpus)
		took := time.Duration(clock.Now() - began)
		if err = errors.Join(err, held.Close(), idle.Settle(cpus)); err != nil || took <= 0 {
			return 0, err
		}
		return float64(after-before) / float64(took) / float64(len(cpus)), nil
	}, nil
}

// Watch observes how busy this machine is.
func (d *Deployment) Watch() (func() []deploy.Load, error) {
	before, err := procfs.ReadCPUTime()
	if err != nil {
		return nil, err
	}
	programs, err := procfs.ReadPrograms()
	if err != nil {
		return nil, err
	}
	load := deploy.Load{Runs: map[int]string{}}
	for _, r := range procfs.Runs(programs, procfs.Family(programs, os.Getpid())) {
		load.Runs[r.PID] = r.Command
	}
	begin := clock.Now()
	return func() []deploy.Load {
		seconds := float64(clock.Now()-begin) / 1e9
		// they could be read a moment ago: a missing column should not cost the block
		if after, err := procfs.ReadCPUTime(); err == nil {
			load.CPU = procfs.Cores(before, after, seconds)
		}
		if average, err := procfs.Load1(); err == nil {
			load.Load1 = average
		}
		if after, err := procfs.ReadPrograms(); err == nil {
			family := procfs.Family(after, os.Getpid())
			d.adopt(family, after)
			load.Programs = procfs.Users(programs, after, family, seconds)
		}
		return []deploy.Load{load}
	}, nil
}

// join adds processes of labs that are not below this one, see [host.Kernel.Joined].
func (d *Deployment) join(pids []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.joined == nil {
		d.joined = map[int]uint64{}
	}
	for _, pid := range pids {
		if started, err := procfs.Started(pid); err == nil { // else it has ended
			d.joined[pid] = started
		}
	}
}

// adopt adds such processes to a family.
func (d *Deployment) adopt(family map[int]bool, all map[int]procfs.Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for pid, started := range d.joined {
		if all[pid].Started == started {
			family[pid] = true
		}
	}
}

// loadedProbe is a probe that observes this machine.
type loadedProbe struct {
	probe.Loaded
	name       string
	deployment *Deployment
}

// LoadProbe loads the probe in this process: hosts have the kernel of this machine, and one probe observes them all.
func (d *Deployment) LoadProbe(p probe.Probe) (deploy.LoadedProbe, error) {
	name := p.Describe().Name
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.probe != nil {
		return nil, fmt.Errorf("load probe %q: probe %q is loaded", name, d.probe.name)
	}
	loaded, err := p.Load()
	if err != nil {
		return nil, err
	}
	d.probe = &loadedProbe{loaded, name, d}
	return d.probe, nil
}

// Close removes the probe.
func (p *loadedProbe) Close() error {
	p.deployment.mu.Lock()
	defer p.deployment.mu.Unlock()
	if p.deployment.probe == p {
		p.deployment.probe = nil
	}
	return p.Loaded.Close()
}

// counters opens the file in which the loaded probe counts, and returns its name for workers; nil if none is loaded.
func (d *Deployment) counters() (name string, f *os.File, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.probe == nil {
		return "", nil, nil
	}
	f, err = d.probe.File()
	return probeFile + d.probe.name, f, err
}

// generation is a set of labs whose workers share a turn: a board, unless it passes by calls.
type generation struct {
	*Deployment
	turns traffic.Turns
	files map[string]*os.File // passed on to every host; none if the turn passes by calls
}

// Begin makes the board and opens the files that every worker inherits.
func (d *Deployment) Begin(l traffic.Layout) (_ deploy.Generation, err error) {
	if d.Called { // meters are those of a machine, and all of its workers would have them
		return &generation{Deployment: d, turns: remote.New()}, nil
	}
	turns, err := board.New(l)
	if err != nil {
		return nil, err
	}
	g := &generation{Deployment: d, turns: turns, files: maps.Clone(turns.Files())}
	defer func() {
		if err != nil {
			_ = g.Close()
		}
	}()
	cpus, err := thread.CPUs()
	if err != nil {
		return nil, err
	}
	for _, cpu := range cpus {
		f, err := process.KsoftirqdStat(cpu)
		if errors.Is(err, errors.ErrUnsupported) {
			continue // the record then lacks its run time
		}
		if err != nil {
			return nil, err
		}
		g.files[fmt.Sprintf("%s%d", softirqdFile, cpu)] = f
	}
	name, f, err := d.counters()
	if err != nil {
		return nil, err
	}
	if f != nil {
		g.files[name] = f
	}
	return g, nil
}

// Turns returns the turn.
func (g *generation) Turns() traffic.Turns { return g.turns }

// Close ends the turn.
func (g *generation) Close() error {
	_ = g.turns.Close() // nothing waits any more, and the memory is released with the process
	for _, f := range g.files {
		_ = f.Close() // those of the turn are already closed
	}
	return nil
}

// tidy removes what killed runs left on the machine, as begun does, before the first lab without a journal is built:
// cgroups, mounts and programs of others are not to be measured. What cannot be removed stays in its journal, and
// nettoll clean says why.
func (d *Deployment) tidy(ctx context.Context) {
	if d.Journals.Dir != "" {
		d.tidied.Do(func() { _, _ = d.Journals.Clean(ctx) })
	}
}

// begun returns the journal of the run. It begins the journal for the first lab that needs one.
func (d *Deployment) begun(ctx context.Context) (*journal.Journal, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.journal != nil {
		return d.journal, nil
	}
	var err error
	d.journal, err = d.Journals.Begin(ctx)
	return d.journal, err
}

// Close ends the journal of the run. The error lists what was taken from the machine and not returned.
func (d *Deployment) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.journal == nil {
		return nil
	}
	err := d.journal.Close()
	d.journal = nil
	return err
}

// start starts a host, which inherits the files, and with cgroups has those of the machine.
func (d *Deployment) start(ctx context.Context, name string, files map[string]*os.File, cgroups bool) (*Host, error) {
	return Start(ctx, Options{Name: name, Files: files, Cgroups: cgroups, Executable: d.Executable, Env: d.Env})
}
