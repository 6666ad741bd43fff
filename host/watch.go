package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/watch"
)

// An Audit is what a host has found that is not as it was at the last audit, or was not for a while.
type Audit struct {
	// Changes are in words: what, where, before → after. Nobody who builds or measures makes any between audits.
	Changes []string `json:"changes,omitempty"`
	// Back is how many audits before this one the last was that looked at all that has changed. That is 1, the last audit,
	// unless a change is of what audits look at in turns.
	Back int `json:"back,omitempty"`
	// Doubts are what could not be watched.
	Doubts []string `json:"doubts,omitempty"`
	// Took is how long the host has looked, and CPU the CPU time that its agent took meanwhile.
	Took time.Duration `json:"took"`
	CPU  time.Duration `json:"cpu"`
}

// A watcher holds what a host was like at the last audit.
type watcher struct {
	common watch.Watch
	spaces map[string]*watch.Namespace // by reference
	began  map[string]*space           // the namespaces themselves
	// processes are those of the host, and the network namespaces that they are in. It is nil if they are not the host's
	// alone.
	processes map[int]running
	// groups are the control groups of the host's processes, with the programs of BPF that act on their sockets. It is nil
	// if those cannot be read, which missing says then.
	groups  map[string]programs
	missing []string
	doubted map[string]bool // what was told
	silent  map[*applied]verification
	next    int // the namespace that is looked at next
	audits  int // so far
}

// found adds what has changed since the audit that was some audits back.
func (a *Audit) found(back int, changes ...string) {
	if len(changes) > 0 {
		a.Changes, a.Back = append(a.Changes, changes...), max(a.Back, back)
	}
}

// Programs are programs of BPF, by hook.
type programs map[string]string

// A running process is one of a host.
type running struct{ namespace string }

// Watch begins to watch the namespaces of the host that steps have made, its own among them, or begins again. Until the
// next audit nothing wakes for it: the kernel collects what happens.
func (k *Kernel) Watch() error {
	k.unwatch()
	k.mu.Lock()
	spaces := maps.Clone(k.spaces)
	k.mu.Unlock()
	w := &watcher{
		spaces: map[string]*watch.Namespace{}, began: map[string]*space{}, doubted: map[string]bool{},
		silent: map[*applied]verification{},
	}
	for ref, s := range spaces {
		if strings.HasPrefix(ref, "@") { // another host's, which watches it
			continue
		}
		n, err := w.common.Open(int(s.file.Fd()), ref == "")
		if err != nil {
			w.close()
			return fmt.Errorf("watch namespace %q: %w", ref, err)
		}
		w.spaces[ref], w.began[ref] = n, s
	}
	w.processes = processes(true)
	var err error
	if w.groups, err = grouped(w.processes); err != nil {
		w.missing = []string{"programs at control groups"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watch = w
	return nil
}

// Announce takes processes and sockets as they are now for known: one of the host's own was started again.
func (k *Kernel) Announce() error {
	k.mu.Lock()
	w := k.watch
	k.mu.Unlock()
	if w == nil {
		return errors.New("announce processes: nothing is watched")
	}
	w.processes = processes(true)
	if is, err := grouped(w.processes); err == nil {
		maps.Copy(is, w.groups)
		w.groups = is
	}
	for _, n := range w.spaces {
		if err := n.Listen(); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kernel) unwatch() {
	k.mu.Lock()
	w := k.watch
	k.watch = nil
	k.mu.Unlock()
	if w != nil {
		w.close()
	}
}

func (w *watcher) close() {
	for _, n := range w.spaces {
		n.Close()
	}
}

// A Silent step stands for something that no namespace tells of: what is in a map, in a switch, in a device of its own.
// Each audit verifies it.
type Silent interface {
	Step
	Silent()
}

// A Tracker is a step that decides about a connection when it begins, and then lets it pass for as long as it lasts.
type Tracker interface {
	Step
	// Tracks says whether it does.
	Tracks() bool
	// Lasting returns, in words, those connections that last although the step would not let them begin now. Tracked are
	// those of the kernel in all namespaces of the host. A step that has a table of its own reads that, too. A doubt, if
	// there is one, says what was not looked at.
	Lasting(k *Kernel, tracked []conntrack.Flow) (list []string, doubt string, err error)
}

// Audit says what has changed in the namespaces that are watched since the last audit, and which [Silent] steps do not
// stand any more. With all it looks at everything there is to look at, where a host of many containers is otherwise
// looked at in turns.
func (s *Stack) Audit(k *Kernel, all bool) (Audit, error) {
	began, used := time.Now(), process.RunTime(os.Getpid())
	a, err := k.audit(all)
	if err != nil {
		return a, err
	}
	for _, one := range s.applied {
		if _, silent := one.Step.(Silent); !silent || one.withdrawn || !k.watch.due(one, all) {
			continue
		}
		verifying := time.Now()
		if err := one.Step.Verify(k.view(one)); err != nil {
			a.found(k.watch.silent[one].left+1, err.Error())
		}
		k.watch.silent[one] = verification{took: time.Since(verifying)}
	}
	if all {
		if err := s.lasting(k, &a); err != nil {
			return a, err
		}
	}
	a.Took, a.CPU = time.Since(began), process.RunTime(os.Getpid())-used
	if len(a.Changes) > 0 {
		k.awaitDeath(dying)
	}
	return a, nil
}

// MostTracked is the largest table of connections that an audit lists: more take too long.
const MostTracked = 50_000

// listing is how long an audit may list connections: for each namespace the kernel walks the table of the machine.
const listing = 3 * time.Second

// lasting adds the connections that outlive their permission.
func (s *Stack) lasting(k *Kernel, a *Audit) error {
	var trackers []*applied
	for _, one := range s.applied {
		if t, ok := one.Step.(Tracker); ok && !one.withdrawn && t.Tracks() {
			trackers = append(trackers, one)
		}
	}
	if len(trackers) == 0 {
		return nil
	}
	var tracked []conntrack.Flow
	began := time.Now()
	for _, ref := range slices.Sorted(maps.Keys(k.watch.spaces)) {
		err := k.watch.began[ref].do(func() error {
			n, err := conntrack.Total()
			if err == nil && n > MostTracked {
				k.watch.doubt(a, fmt.Sprintf("more than %d connections are tracked, so those that outlive their permission "+
					"are not looked for", MostTracked)+of(ref))
			}
			if err != nil || n == 0 || n > MostTracked {
				return err
			}
			if time.Since(began) > listing {
				k.watch.doubt(a, fmt.Sprintf("listing connections takes more than %v, so those that outlive their permission "+
					"are not looked for everywhere", listing))
				return nil
			}
			list, err := conntrack.List()
			tracked = append(tracked, list...)
			return err
		})
		if errors.Is(err, errors.ErrUnsupported) {
			k.watch.doubt(a, fmt.Sprintf("connections that outlive their permission are not looked for: %v", err))
			continue
		}
		if err != nil {
			return err
		}
	}
	for _, one := range trackers {
		list, doubt, err := one.Step.(Tracker).Lasting(k.view(one), tracked)
		if err != nil {
			return err
		}
		a.found(k.watch.audits, list...)
		if doubt != "" {
			k.watch.doubt(a, doubt)
		}
	}
	return nil
}

// dying is how long it takes at most until the end of a killed program is known.
const dying = 300 * time.Millisecond

// awaitDeath waits until one of the host's programs has died, but not for longer than the limit. The links and
// connections of a killed program go first, and whoever is told of these changes asks what has died.
func (k *Kernel) awaitDeath(limit time.Duration) {
	k.mu.Lock()
	programs := slices.DeleteFunc(slices.Clone(k.programs), (*Running).isStopped)
	k.mu.Unlock()
	if len(programs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, r := range programs {
		go func() {
			select {
			case <-r.done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	<-ctx.Done()
}

// A verification is the last one of a [Silent] step.
type verification struct {
	took time.Duration
	left int // audits without it since then
}

const (
	// quick is how long the verification of a step may take that is part of every audit. One that takes n times as long is
	// part of every nth audit, but of every eighth at least.
	quick  = 500 * time.Microsecond
	seldom = 8
)

// due says whether an audit is to verify a silent step.
func (w *watcher) due(a *applied, all bool) bool {
	last := w.silent[a]
	if all || last.left+1 >= min(seldom, int(last.took/quick)) {
		return true
	}
	last.left++
	w.silent[a] = last
	return false
}

// inTurn is of how many namespaces besides the host's own an audit looks at what has no monitor.
const inTurn = 4

// audit asks the namespaces that are watched.
func (k *Kernel) audit(all bool) (Audit, error) {
	k.mu.Lock()
	w := k.watch
	k.mu.Unlock()
	if w == nil {
		return Audit{}, errors.New("audit: nothing is watched")
	}
	var a Audit
	w.audits++
	var heard []watch.Socket // and where
	missing := w.missing
	refs := slices.Sorted(maps.Keys(w.spaces))
	for i, ref := range refs {
		if text := k.replaced(ref, w.began[ref]); text != "" {
			a.found(1, text)
		}
		much := watch.Reported
		switch {
		case all:
			much = watch.All
		case ref == "" || (i-w.next+len(refs))%len(refs) < inTurn:
			much = watch.Usual
		}
		found, err := w.spaces[ref].Audit(much)
		if err != nil {
			return a, fmt.Errorf("audit namespace %q: %w", ref, err)
		}
		for _, c := range found.Changes {
			a.found(c.Back, c.String()+of(ref))
		}
		for _, s := range found.New {
			theirs, err := w.theirs(ref, s)
			if err != nil {
				return a, err
			}
			if theirs {
				s.Name = fmt.Sprintf("socket %s: opened by a process that is not of this host%s", s.Name, of(ref))
				heard = append(heard, s)
			}
		}
		missing = append(missing, w.spaces[ref].Missing()...)
		if found.Lost {
			w.doubt(&a, "more happened between two blocks than could be kept, so what came and went is not all known"+of(ref))
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		w.doubt(&a, fmt.Sprintf("what changes of %s is not noticed here: the kernel does not say",
			strings.Join(slices.Compact(missing), ", ")))
	}
	w.next = (w.next + inTurn) % len(refs)
	for _, s := range heard { // behind what has opened them
		a.found(s.Back, s.Name)
	}
	came, went := w.strangers(all)
	a.found(1, came...)
	a.found(w.audits, went...)
	if all {
		changed, err := w.regrouped()
		if err != nil {
			return a, err
		}
		a.found(w.audits, changed...)
	}
	return a, nil
}

// of ends what is said of a namespace.
func of(ref string) string {
	if ref == "" {
		return ", on the host itself"
	}
	return ", in namespace " + ref
}

// doubt adds a doubt that was not told before.
func (w *watcher) doubt(a *Audit, text string) {
	if !w.doubted[text] {
		w.doubted[text] = true
		a.Doubts = append(a.Doubts, text)
	}
}

// replaced says that another namespace stands in the place of one, or none.
func (k *Kernel) replaced(ref string, was *space) string {
	if ref == "" {
		return ""
	}
	there, err := os.Stat(k.Path(ref))
	own, ownErr := was.file.Stat()
	if err == nil && ownErr == nil && os.SameFile(there, own) {
		return ""
	}
	if err != nil {
		return fmt.Sprintf("namespace %s: removed from its place", ref)
	}
	return fmt.Sprintf("namespace %s: another one stands in its place", ref)
}

// processes are those that this process sees if they are those of a host: the first of them is no process of a machine.
// With spaces it says where they are; else that is left out.
func processes(spaces bool) map[int]running {
	if os.Getppid() != 1 {
		return nil
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	list, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	all := map[int]running{}
	for _, name := range list {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			var r running
			if spaces {
				r.namespace = networkOf(name)
			}
			all[pid] = r
		}
	}
	return all
}

// networkOf is the network namespace of a process, "" if it has ended.
func networkOf(pid string) string {
	ns, err := os.Readlink(filepath.Join("/proc", pid, "ns/net"))
	if err != nil {
		return ""
	}
	return ns
}

// grouped reads which programs of BPF act on the sockets of the agent and of these processes, by their control groups.
func grouped(of map[int]running) (map[string]programs, error) {
	return programsOf(cgroup.InUnified(append(slices.Collect(maps.Keys(of)), os.Getpid())...))
}

// programsOf reads the programs of control groups. Groups that are gone are left out.
func programsOf(groups []string) (map[string]programs, error) {
	all := map[string]programs{}
	if len(groups) == 0 { // a machine without that hierarchy
		return all, nil
	}
	u, err := cgroup.OpenUnified()
	if err != nil {
		return nil, err
	}
	defer u.Close()
	for _, group := range groups {
		dir, err := u.Open(group)
		if err != nil {
			continue
		}
		all[group], err = bpf.OfGroup(int(dir.Fd()))
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// regrouped says which programs are not as they were at the control groups of the host's processes.
func (w *watcher) regrouped() (list []string, err error) {
	if w.groups == nil {
		return nil, nil
	}
	now, err := programsOf(slices.Sorted(maps.Keys(w.groups)))
	if err != nil {
		return nil, err
	}
	for _, group := range slices.Sorted(maps.Keys(now)) {
		was, is := w.groups[group], now[group]
		hooks := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
		slices.Sort(hooks)
		for _, hook := range slices.Compact(hooks) {
			if was[hook] != is[hook] {
				list = append(list, fmt.Sprintf("programs at %s of the control group %s: %s → %s", hook, group,
					cmp.Or(was[hook], "none"), cmp.Or(is[hook], "none")))
			}
		}
	}
	w.groups = now
	return list, nil
}

// strangers says which processes have come to the host from outside and, with all, which ones have gone to another
// network namespace.
func (w *watcher) strangers(all bool) (came, went []string) {
	if w.processes == nil {
		return nil, nil
	}
	is := processes(all)
	var programs map[int]procfs.Program
	for _, pid := range slices.Sorted(maps.Keys(is)) {
		was, known := w.processes[pid]
		if known && is[pid].namespace == "" { // it is not looked at
			is[pid] = was
		}
		if known && (was.namespace == is[pid].namespace || is[pid].namespace == "" || was.namespace == "") {
			continue
		}
		if programs == nil {
			programs, _ = procfs.ReadPrograms() // what has ended meanwhile is none
		}
		p, still := programs[pid]
		switch {
		case !still:
		case known:
			went = append(went, fmt.Sprintf("network namespace of process %d (%s): %s → %s", pid, p.Name, was.namespace,
				is[pid].namespace))
		case outsider(p):
			came = append(came, fmt.Sprintf("process %d (%s): came from outside of the host", pid, p.Name))
		}
	}
	w.processes = is
	return came, went
}

// outsider says that a process came from outside: nobody in the host has started it, or who has started it has ended,
// and it is still in a session of the machine. All others of a host are in one that began there.
func outsider(p procfs.Program) bool { return p.Parent == 0 || p.Session == 0 }

// theirs says that a socket is open, and that no process of the host has it. One of the host's own may be closed
// between an audit and the search for its owner, and one that a program inherits is closed when the program starts. On
// its way from one process to another a socket is in none.
func (w *watcher) theirs(ref string, s watch.Socket) (bool, error) {
	if ours(s.Inode) {
		return false, nil
	}
	open, err := w.spaces[ref].IsOpen(s)
	return open && !ours(s.Inode), err
}

// ours says whether a process that this one can see, such as a worker or its program, has a socket.
func ours(inode uint32) bool {
	want := fmt.Sprintf("socket:[%d]", inode)
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return false
	}
	outside := map[int]bool{}
	for _, path := range files {
		to, err := os.Readlink(path)
		if err != nil || to != want {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			continue
		}
		if _, asked := outside[pid]; !asked {
			outside[pid] = foreign(pid)
		}
		if !outside[pid] {
			return true
		}
	}
	return false
}

// foreign says that a process, or one of those that have started it, came from outside.
func foreign(pid int) bool {
	all, err := procfs.ReadPrograms()
	if err != nil {
		return true
	}
	for pid > 1 {
		p, known := all[pid]
		if !known || outsider(p) {
			return true
		}
		pid = p.Parent
	}
	return false
}
