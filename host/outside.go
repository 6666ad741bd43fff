package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/rooted"
)

// OutsidePrefix is the beginning of the name of an inherited file: the root directory of the machine, for hosts with
// steps that are [Outward]. The id of the run follows.
const OutsidePrefix = "outside:"

// An Outward step uses files or programs of the machine that the mounts and namespaces of its host hide.
type Outward interface {
	Step
	// Outward reports whether this one does.
	Outward() bool
}

// Outward reports whether a step of the plan is [Outward].
func (p Plan) Outward() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		o, is := s.(Outward)
		return is && o.Outward()
	})
}

// Outside is the machine of a host, for its steps that are [Outward].
type Outside struct {
	root *os.File
	// Run identifies the run, among all runs of the machine.
	Run string
}

// Outside returns the machine of the host.
func (k *Kernel) Outside() (Outside, error) {
	for name, f := range k.files {
		if run, ok := strings.CutPrefix(name, OutsidePrefix); ok {
			return Outside{f, run}, nil
		}
	}
	return Outside{}, errors.New("use the machine outside of the host: its root directory was not passed to this host")
}

// Resolve returns the path of a file of the machine without symbolic links.
func (o Outside) Resolve(path string) (string, error) { return rooted.Resolve(o.root, path) }

// Path returns where this process, and those that it starts, find a file of the machine, whose path has no symbolic
// links.
func (o Outside) Path(path string) string { return rooted.Path(o.root, path) }

// Within reports whether a process of the machine is in a network namespace.
func (o Outside) Within(pid int, ns *os.File) (bool, error) {
	theirs, err := netns.Open(o.Path(fmt.Sprintf("/proc/%d/ns/net", pid)))
	if err != nil {
		return false, err
	}
	defer theirs.Close()
	return netns.Same(ns, theirs)
}

// Joined reports the PID, on the machine, of a process that belongs to the host without being below its first process.
func (k *Kernel) Joined(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report.Joined = append(k.report.Joined, pid)
}
