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
	"path/filepath"
	"time"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Where a machine has the directory of its own, and the binary with all programs.
const (
	inside  = "/run/testkube"
	program = "/run/kube"
	images  = "/run/images" // on nodes
)

// A machine is a PID 1 in namespaces of its own, and its agent.
type machine struct {
	name   string
	dir    string // of this machine: on it, inside
	cgroup string
	cmd    *exec.Cmd
	net    *os.File
	agent  *rpc.Client
	ended  chan struct{}
}

// start starts PID 1 and the agent, and returns when PID 1 has made a node of its namespaces. The node has its
// directory and the binary with all programs.
func (m *machine) start(ctx context.Context, binary string, s spec) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start machine %q: %w", m.name, err), m.stop())
		}
	}()
	if m.cgroup != "" {
		if err := cgroup.Make(m.cgroup); err != nil {
			return err
		}
	}
	s.Node.Hostname, s.Node.Cgroup = m.name, m.cgroup
	s.Node.Binds = append(s.Node.Binds, process.Bind{From: m.dir, To: inside}, process.Bind{From: binary, To: program})
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(m.dir, "init.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", initCommand, string(text))
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(cmd, process.Options{Namespaces: true}); err != nil {
		return err
	}
	m.cmd, m.ended = cmd, make(chan struct{})
	m.agent = rpc.NewClient(pipes{conn{out, in}, in, out})
	go func() {
		_ = cmd.Wait()
		close(m.ended)
	}()
	if m.net, err = netns.Open(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)); err != nil {
		return err
	}
	return m.call(ctx, "Ready", struct{}{}, new(bool))
}

// pipes are both ends of the agent's standard streams.
type pipes struct {
	conn
	in, out io.Closer
}

// Close closes both.
func (p pipes) Close() error { return errors.Join(p.in.Close(), p.out.Close()) }

// call calls a method of the agent.
func (m *machine) call(ctx context.Context, method string, args, reply any) error {
	call := m.agent.Go("Agent."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", m.name, ctx.Err())
	case <-m.ended:
		return fmt.Errorf("machine %q has ended: %s (its log: %s)", m.name, process.Ended(m.cmd.ProcessState),
			tail(filepath.Join(m.dir, "init.log"), 5))
	case <-call.Done:
	}
	if call.Error != nil {
		return fmt.Errorf("%s: %w", m.name, call.Error)
	}
	return nil
}

// daemon starts a daemon, whose log is in the directory of the machine. It is a program of the binary, or another one
// with a path.
func (m *machine) daemon(ctx context.Context, name string, args ...string) error {
	var pid int
	return m.call(ctx, "Start", Daemon{Name: name, Args: args, Log: filepath.Join(inside, name+".log")}, &pid)
}

// kube starts a daemon that is a program of the binary.
func (m *machine) kube(ctx context.Context, name string, args ...string) error {
	return m.daemon(ctx, name, append([]string{program, name}, args...)...)
}

// kill kills a daemon.
func (m *machine) kill(ctx context.Context, name string) error {
	var how string
	return m.call(ctx, "Kill", name, &how)
}

// alive returns an error if a daemon has ended.
func (m *machine) alive(ctx context.Context, name string) error {
	var how string
	if err := m.call(ctx, "Ended", name, &how); err != nil {
		return err
	}
	if how != "" {
		return fmt.Errorf("%s: %s has ended: %s\n%s", m.name, name, how, tail(filepath.Join(m.dir, name+".log"), 10))
	}
	return nil
}

// run runs a command on the machine, and returns what it has written.
func (m *machine) run(ctx context.Context, args ...string) (string, error) {
	c := Command{Args: args, Timeout: time.Minute}
	if deadline, ok := ctx.Deadline(); ok {
		c.Timeout = time.Until(deadline)
	}
	var output string
	err := m.call(ctx, "Run", c, &output)
	return output, err
}

// stop ends the machine and all its processes, and removes its control groups. It may be called again.
func (m *machine) stop() error {
	var errs []error
	if m.cmd != nil {
		_ = m.cmd.Process.Kill() // it may be gone
		// All processes of its PID namespace end before it does (zap_pid_ns_processes, kernel/pid_namespace.c).
		<-m.ended
		_ = m.agent.Close()
		m.cmd = nil
	}
	if m.net != nil {
		errs = append(errs, m.net.Close())
		m.net = nil
	}
	if m.cgroup != "" {
		errs = append(errs, cgroup.Remove(m.cgroup))
	}
	return errors.Join(errs...)
}
