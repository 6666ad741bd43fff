package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// A Command is a program to run inside a lab.
type Command struct {
	// At is the place: "h1", "h1/src0", "underlay".
	At string `json:"at"`
	// Path is the program, Args its arguments, beginning with its name.
	Path string   `json:"path"`
	Args []string `json:"args"`
	// Env is its environment, to which NETTOLL_LAB and NETTOLL_AT are added.
	Env []string `json:"env"`
	// Dir is its directory, or "/" if the host does not have that directory.
	Dir string `json:"dir"`
	// Terminal is true if its standard input is a terminal, which becomes its controlling terminal.
	Terminal bool `json:"terminal,omitempty"`
}

type ran struct {
	Exit int `json:"exit"` // as a shell reports it
	// Gone is true if the lab was taken down meanwhile.
	Gone bool `json:"gone,omitempty"`
}

type sent struct {
	Number int `json:"number"`
}

// command is one client, and the program that it runs.
type command struct {
	owner *owner
	files []*os.File // its standard files

	mu      sync.Mutex
	process *os.Process   // nil while it does not run
	started chan struct{} // closed when it has been started
}

func (c *command) close() {
	for _, f := range c.files {
		_ = f.Close()
	}
}

// run runs the program until it ends.
func (c *command) run(ctx context.Context, p Command) (ran, error) {
	if len(c.files) != 3 || len(p.Args) == 0 {
		return ran{}, fmt.Errorf("run: received %d arguments and %d files (valid: a program and its 3 standard "+
			"files)", len(p.Args),
			len(c.files))
	}
	at, err := find(c.owner.lab, p.At)
	if err != nil {
		return ran{}, err
	}
	cmd := &exec.Cmd{
		Path: p.Path, Args: p.Args, Dir: p.Dir, Env: append(p.Env, "NETTOLL_LAB="+c.owner.entry.Name, "NETTOLL_AT="+at.name),
		Stdin: c.files[0], Stdout: c.files[1], Stderr: c.files[2],
	}
	stop := context.AfterFunc(ctx, func() { c.send(syscall.SIGKILL) }) // its client does not wait any more
	defer stop()
	err = at.host.Run(cmd, at.namespace, p.Terminal, func(running *os.Process) {
		c.mu.Lock()
		c.process = running
		c.mu.Unlock()
		close(c.started)
		if ctx.Err() != nil {
			c.send(syscall.SIGKILL)
		}
		c.close() // the program has its own copies now: a reader must see end of file
	})
	c.mu.Lock()
	c.process = nil
	c.mu.Unlock()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return ran{}, fmt.Errorf("run %q at %s: %w", p.Args[0], at.name, err)
	}
	gone := false
	select {
	case <-c.owner.ending:
		gone = true
	default:
	}
	return ran{process.ExitStatus(cmd.ProcessState), gone}, nil
}

// send sends a signal to the program and the processes that it has started.
func (c *command) send(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		_ = process.SignalGroup(c.process, s) // it may be ending
	}
}

func (c *command) signal(ctx context.Context, s sent) (none, error) {
	select {
	case <-c.started:
		c.send(syscall.Signal(s.Number))
	case <-ctx.Done():
	}
	return none{}, nil
}

// place is where a program can run.
type place struct {
	name      string // "h1/src0"
	host      deploy.Place
	namespace string // "" for the host's own
}

// places returns all places of a lab.
func places(lab *control.LiveLab) []place {
	var hosts, containers []place
	for _, h := range lab.Hosts {
		hosts = append(hosts, place{hostName(h), h.Place, ""})
		for _, c := range h.Containers {
			containers = append(containers, place{hostName(h) + "/" + c.Name, h.Place, c.Namespace})
		}
	}
	return append(hosts, containers...)
}

// maxPlaces is the largest number of places that an error lists.
const maxPlaces = 12

// find returns the place with a name: "h1" or "host1", "h1/src0", "h1/snk0" or "h1/sink0", or a container without its
// host.
func find(lab *control.LiveLab, meant string) (place, error) {
	on, container, inside := strings.Cut(meant, "/")
	if !inside {
		on, container = "", meant
	}
	if number, ok := strings.CutPrefix(container, "sink"); ok {
		container = "snk" + number
	}
	if number, ok := strings.CutPrefix(on, "host"); ok {
		on = "h" + number
	}
	var names []string
	for _, p := range places(lab) {
		theirs, name, below := strings.Cut(p.name, "/")
		switch {
		case !below && !inside && (meant == p.name || meant == p.host.Name()), below && container == name &&
			(on == theirs || !inside):
			return p, nil
		}
		names = append(names, p.name)
	}
	if more := len(names) - maxPlaces; more > 0 {
		names = append(names[:maxPlaces], fmt.Sprintf("and %d more", more))
	}
	return place{}, fmt.Errorf("the lab has no %q (known: %s)", meant, strings.Join(names, ", "))
}
