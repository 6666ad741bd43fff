package testkube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// The commands by which the program that starts a cluster is started again, as PID 1 of a machine and as its agent.
const (
	initCommand  = "testkube-init"
	agentCommand = "testkube-agent"
)

// Again reports whether a program was started by a cluster: its main function calls [Init], and ends with its status.
func Again(args []string) bool {
	return len(args) > 1 && slices.Contains([]string{initCommand, agentCommand}, args[1])
}

// Init is the main function of PID 1 of a machine, and of its agent. Args are those of the program, with its name.
func Init(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	status, err := again(args, stdin, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", args[1], err)
	}
	return status
}

func again(args []string, stdin io.Reader, stdout io.Writer) (int, error) {
	if args[1] == agentCommand {
		if err := serve(stdin, stdout); err != nil {
			return 1, err
		}
		return 0, nil
	}
	if len(args) != 3 {
		return 2, errors.New("only a cluster of testkube starts it")
	}
	var s spec
	if err := json.Unmarshal([]byte(args[2]), &s); err != nil {
		return 2, err
	}
	if err := s.Node.Become(); err != nil {
		return 1, err
	}
	for name, value := range s.Sysctls {
		if _, err := sysctl.Change(name, value); err != nil {
			return 1, err
		}
	}
	return process.Supervise("/proc/self/exe", []string{args[0], agentCommand}, environ(os.Environ()))
}

// environ is the environment of a machine: nothing of a user's, whose directories are not there, but what programs are
// found by, and the mark by which tests know their processes.
func environ(base []string) []string {
	env := slices.DeleteFunc(base, func(e string) bool {
		return !strings.HasPrefix(e, "PATH=") && !strings.HasPrefix(e, "NETTOLL_TESTNET=")
	})
	return append(env, "HOME=/run", "LC_ALL=C.UTF-8")
}

// A spec is what PID 1 makes of its namespaces.
type spec struct {
	Node    process.Node
	Sysctls map[string]string // of the network namespace
}

// An Agent starts and ends programs on a machine, for [machine]. Its methods are those of package net/rpc.
type Agent struct {
	mu      sync.Mutex
	running map[string]*daemon
}

type daemon struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	status string // when it has ended
}

// serve runs an agent until its standard input ends.
func serve(stdin io.Reader, stdout io.Writer) error {
	server := rpc.NewServer()
	if err := server.Register(&Agent{running: map[string]*daemon{}}); err != nil {
		return err
	}
	server.ServeConn(conn{stdin, stdout})
	return nil
}

// conn makes two streams one.
type conn struct {
	io.Reader
	io.Writer
}

// Close does nothing: the agent ends next.
func (conn) Close() error { return nil }

// Ready answers: the machine is what it shall be.
func (*Agent) Ready(_ struct{}, ready *bool) error {
	*ready = true
	return nil
}

// A Daemon is a program that runs until it is ended.
type Daemon struct {
	// Name is the name of the daemon on its machine.
	Name string
	// Args are the path of the program and its arguments.
	Args []string
	// Log is the file to which its output is added.
	Log string
}

// Start starts a daemon. One of that name must not run.
func (a *Agent) Start(d Daemon, pid *int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.running[d.Name]; old != nil && !old.over() {
		return fmt.Errorf("%s is already running", d.Name)
	}
	log, err := os.OpenFile(d.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(d.Args[0], d.Args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := process.Start(cmd, process.Options{Group: true}); err != nil {
		return errors.Join(err, log.Close())
	}
	*pid = cmd.Process.Pid
	running := &daemon{cmd: cmd, ended: make(chan struct{})}
	a.running[d.Name] = running
	go func() {
		_ = cmd.Wait()
		running.status = process.Ended(cmd.ProcessState)
		fmt.Fprintf(log, "testkube: %s ended: %s\n", d.Name, running.status)
		_ = log.Close()
		close(running.ended)
	}()
	return nil
}

func (d *daemon) over() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// Ended returns how a daemon ended; "" if it runs.
func (a *Agent) Ended(name string, how *string) error {
	d, err := a.daemon(name)
	if err == nil && d.over() {
		*how = d.status
	}
	return err
}

func (a *Agent) daemon(name string) (*daemon, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.running[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%s was not started", name)
}

// Kill kills a daemon alone, with nothing that it has started, and waits until it has ended. It returns how it ended.
func (a *Agent) Kill(name string, how *string) error {
	d, err := a.daemon(name)
	if err != nil {
		return err
	}
	if d.over() {
		return fmt.Errorf("%s has already ended: %s", name, d.status)
	}
	if err := d.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-d.ended
	*how = d.status
	return nil
}

// A Command is a program that ends by itself.
type Command struct {
	Args    []string
	Timeout time.Duration
}

// Run runs a command and returns what it has written.
func (a *Agent) Run(c Command, output *string) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	text, err := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...).CombinedOutput()
	*output = string(text)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, strings.TrimSpace(string(text)))
	}
	return nil
}
