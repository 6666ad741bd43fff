package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// DefaultDir is the directory of namespaces, as for ip-netns(8).
const DefaultDir = "/run/netns"

// filePrefix is the beginning of the names of inherited namespaces.
const filePrefix = "netns:"

// A Kernel is the kernel of one host as the steps of plans see it: the namespaces that they name, with a netlink socket
// for each that stays open. The agent of the host makes it. Its methods may be called from several goroutines.
//
// A [Stack] gives each step its own view of the Kernel, which keeps what the step finds out, see [Kernel.Keep].
type Kernel struct {
	*opened
	at *applied // the step that is being applied or removed; nil outside a stack
}

// opened is the state that all views of a Kernel share.
type opened struct {
	dir     string
	run     string
	files   map[string]*os.File
	journal Journal
	worker  func(container string) *exec.Cmd

	mu        sync.Mutex
	closed    bool
	secret    Secret
	report    Report
	programs  []*Running
	residents map[string]*Resident // by container
	groups    []string             // of workers beside containers, the next one first
	spaces    map[string]*space    // by reference
	gone      map[string]time.Time // removed namespaces, by reference, with the time
	tap       tap                  // the active tap; nil: none
	watch     *watcher             // that an audit asks; nil: nothing is watched
	haste     bool                 // the last link waited for did not run in time
}

// A KernelConfig configures a Kernel.
type KernelConfig struct {
	// Dir is the directory in which namespaces are bind-mounted; "" is [DefaultDir]. It is made if necessary, and
	// stays.
	Dir string
	// Run is the directory in which programs keep sockets, databases and logs; "" is [DefaultRun].
	Run string
	// Files are the inherited files by name, as passed by --file. Files named "netns:NAME" are the namespaces "@NAME", and
	// one that begins with [OutsidePrefix] is the root directory of the machine. The caller still owns them.
	Files map[string]*os.File
	// Journal records steps before they make something that outlives namespaces. If it is nil, such steps are refused.
	Journal Journal
	// Worker returns the command of a worker in a container, see [Kernel.WorkerCommand]; nil: there is none.
	Worker func(container string) *exec.Cmd
	// Secret is the secret of the lab; the zero value means none, see [Kernel.Entrust].
	Secret Secret
}

// space is an open namespace. What steps have put there refers to the space and not to its name, because the name can
// come to mean another namespace.
type space struct {
	ref   string
	file  *os.File
	links *link.Handle // nil until it is needed
	// made holds the indexes of links that steps have made here, by name. It saves requests when steps are applied;
	// verification always asks the kernel.
	made map[string]int
}

// NewKernel returns a Kernel whose own namespace is that of the calling thread.
func NewKernel(c KernelConfig) (*Kernel, error) {
	own, err := netns.Current()
	if err != nil {
		return nil, err
	}
	k := &Kernel{opened: &opened{
		dir: c.Dir, run: c.Run, files: maps.Clone(c.Files), journal: c.Journal, worker: c.Worker,
		spaces: map[string]*space{"": {file: own}}, gone: map[string]time.Time{}, secret: c.Secret,
	}}
	if k.dir == "" {
		k.dir = DefaultDir
	}
	if k.run == "" {
		k.run = DefaultRun
	}
	return k, nil
}

// Close closes what the Kernel has opened. It removes nothing, so undo what was applied before. It is idempotent.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	var errs []error
	if k.tap != nil {
		errs = append(errs, k.tap.Close())
	}
	if k.watch != nil {
		k.watch.close()
		k.watch = nil
	}
	for _, s := range k.spaces {
		errs = append(errs, s.close())
	}
	clear(k.spaces)
	return errors.Join(errs...)
}

// Do calls f on a thread inside the namespace ns and returns its error. Other goroutines that f starts are not inside.
func (k *Kernel) Do(ns string, f func() error) error {
	s, err := k.space(ns)
	if err != nil {
		return err
	}
	return s.do(f)
}

// do calls f on a thread inside the namespace. The file stays open meanwhile: after a close, its number would be that
// of another file.
func (s *space) do(f func() error) error {
	held, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = held.Control(func(fd uintptr) { failed = netns.Do(int(fd), f) })
	return errors.Join(err, failed)
}

// Open opens the namespace ns. The caller closes the file.
func (k *Kernel) Open(ns string) (*os.File, error) {
	var f *os.File
	err := k.Do(ns, func() (err error) {
		f, err = netns.Current()
		return err
	})
	return f, err
}

// Links returns the netlink socket of the namespace ns. The Kernel owns it; do not close it.
func (k *Kernel) Links(ns string) (*link.Handle, error) {
	s, err := k.space(ns)
	if err != nil {
		return nil, err
	}
	return k.handle(s)
}

// space opens the namespace for a reference, once.
func (k *Kernel) space(ref string) (*space, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errClosed(ref)
	}
	if s, ok := k.spaces[ref]; ok {
		return s, nil
	}
	var f *os.File
	if name, ok := strings.CutPrefix(ref, "@"); ok {
		theirs, ok := k.files[filePrefix+name]
		if !ok {
			return nil, fmt.Errorf("open namespace %q: no such file was passed to this host (passed: %s)", ref, k.passed())
		}
		// A second file, because the caller closes the first one.
		var err error
		if f, err = netns.Open(fmt.Sprintf("/proc/self/fd/%d", theirs.Fd())); err != nil {
			return nil, fmt.Errorf("open namespace %q: %w", ref, err)
		}
	} else {
		if err := checkNamespace(ref); err != nil {
			return nil, err
		}
		var err error
		if f, err = netns.Open(k.Path(ref)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open namespace %q: %w (hint: a namespace step makes it)", ref, err)
		} else if err != nil {
			return nil, fmt.Errorf("open namespace %q: %w", ref, err)
		}
	}
	s := &space{ref: ref, file: f}
	k.spaces[ref] = s
	return s, nil
}

// handle opens the netlink socket of a space, once.
func (k *Kernel) handle(s *space) (*link.Handle, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.spaces[s.ref] != s {
		return nil, errClosed(s.ref)
	}
	if s.links == nil {
		if err := netns.Do(int(s.file.Fd()), func() (err error) {
			s.links, err = link.Open()
			return err
		}); err != nil {
			return nil, fmt.Errorf("open links of namespace %q: %w", s.ref, err)
		}
	}
	return s.links, nil
}

// make makes the namespace of a name and mounts it in the directory.
func (k *Kernel) make(name string) (*space, error) {
	return k.bind(name, func(s *space) (err error) {
		// The netlink socket is opened at the same time: every container needs it, and the thread is already inside.
		s.file, err = netns.New(func() (err error) {
			s.links, err = link.Open()
			return err
		})
		return err
	})
}

// bind mounts the namespace that open opens in the directory, by its name.
func (k *Kernel) bind(name string, open func(s *space) error) (*space, error) {
	if err := checkNamespace(name); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errClosed(name)
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of namespaces: %w", err)
	}
	s := &space{ref: name}
	if err := open(s); err != nil {
		return nil, err
	}
	if err := netns.Bind(s.file, k.Path(name)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if old, ok := k.spaces[name]; ok {
		_ = old.close() // its mount was removed by someone else; Bind found none there
	}
	k.spaces[name] = s
	delete(k.gone, name)
	return s, nil
}

// remove ends the namespace of a name that [Kernel.make] made, in this or another process. A second call succeeds.
func (k *Kernel) remove(name string) error {
	if err := checkNamespace(name); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errClosed(name)
	}
	if err := netns.Unbind(k.Path(name)); err != nil {
		return err
	}
	if _, again := k.gone[name]; !again {
		k.gone[name] = time.Now()
	}
	s, ok := k.spaces[name]
	if !ok {
		return nil
	}
	delete(k.spaces, name)
	return s.close()
}

// removed returns when this process removed a namespace, the zero time if it did not, and how many it has removed.
func (k *Kernel) removed(ref string) (at time.Time, all int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gone[ref], len(k.gone)
}

// Gone reports whether the namespace ns, and everything that steps put there, is gone.
func (k *Kernel) Gone(ns string) (bool, error) {
	if at, _ := k.removed(ns); !at.IsZero() {
		return true, nil
	}
	_, err := k.space(ns)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(ns, "@") {
		return true, nil
	}
	return false, err
}

// standing is [Kernel.inside], and also reports whether the namespace exists.
func (k *Kernel) standing(ns string) (s *space, h *link.Handle, stands bool, err error) {
	if gone, err := k.Gone(ns); gone || err != nil {
		return nil, nil, false, err
	}
	s, h, err = k.inside(ns)
	return s, h, err == nil, err
}

// remember saves the index of a link that a step has made.
func (k *Kernel) remember(s *space, name string, index int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.made == nil {
		s.made = map[string]int{}
	}
	s.made[name] = index
	k.haste = false
}

// remembered returns the index that [Kernel.remember] saved.
func (k *Kernel) remembered(s *space, name string) (index int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	index, ok = s.made[name]
	return index, ok
}

// forget drops the index that [Kernel.remember] saved.
func (k *Kernel) forget(s *space, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(s.made, name)
}

// hasty reports whether it is useless to wait for links.
func (k *Kernel) hasty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.haste
}

// hurry sets the result of hasty.
func (k *Kernel) hurry(haste bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.haste = haste
}

// Path returns where a namespace that a step made is mounted.
func (k *Kernel) Path(name string) string { return filepath.Join(k.dir, name) }

func (k *Kernel) passed() string {
	var names []string
	for name := range k.files {
		if rest, ok := strings.CutPrefix(name, filePrefix); ok {
			names = append(names, "@"+rest)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (s *space) close() error {
	if s.links != nil {
		s.links.Close()
		s.links = nil
	}
	return s.file.Close()
}

func errClosed(ref string) error {
	return fmt.Errorf("use namespace %q: %w", ref, os.ErrClosed)
}

func checkNamespace(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.HasPrefix(name, "@") ||
		strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("invalid namespace name %q (valid: such as src0)", name)
	}
	return nil
}
