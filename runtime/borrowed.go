package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// A Borrower is a runtime that can have a daemon of the machine make containers. They are on the machine, outside of
// their hosts, which have only their network namespaces.
type Borrower interface {
	Runtime
	// Borrows reports whether it does so with these parameters.
	Borrows(p part.Params) bool
	// Daemon asks the daemon of the machine, from outside of hosts, for what it is: "20.10.24 at /run/docker.sock". The
	// error is a [linux.UnsupportedError] if there is none that can make containers of labs.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Daemon(ctx context.Context) (string, error)
}

// borrows reports whether a daemon of the machine makes the containers of a stack.
func borrows(s stack.Stack) (Borrower, bool) {
	b, params, ok := stack.PartOf[Borrower](s)
	return b, ok && b.Borrows(params)
}

// A Borrowed is a daemon of the machine that makes containers of a host.
type Borrowed struct {
	host.Outside
	// Name is what it is called in errors: "the machine's Docker".
	Name string
	// Socket is the path of its socket on the machine, without symbolic links.
	Socket string
	// Dir is a directory of the machine for the sockets of workers.
	Dir string
	// Process returns the PID of a container on the machine. Kill ends a container, which may be gone. Status says how
	// one has ended: "exit status 137".
	Process func(container string) (int, error)
	Kill    func(container string)
	Status  func(container string) string
}

// answering is how long a daemon of the machine may take to answer.
const answering = 5 * time.Second

// Answers returns an error with its name if the daemon does not answer to HTTP.
func (b *Borrowed) Answers() error {
	line, err := ping(b.Path(b.Socket))
	if err == nil && !strings.HasPrefix(line, "HTTP/1.") {
		err = fmt.Errorf("unexpected answer %.40q", line)
	}
	if err != nil {
		return fmt.Errorf("%s at %s does not answer: %w", b.Name, b.Socket, reason(err))
	}
	return nil
}

// reason is an error without the path of a socket by which this process reaches the machine.
func reason(err error) error {
	if of, ok := errors.AsType[*net.OpError](err); ok {
		return of.Err
	}
	return err
}

// ping asks a daemon whether it is there, and returns the first line of the answer.
func ping(socket string) (string, error) {
	conn, err := net.DialTimeout("unix", socket, answering)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answering))
	if _, err := io.WriteString(conn, "GET /_ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// executable returns the path at which the daemon finds a program of this process.
func (b *Borrowed) executable(path string) (string, error) {
	same, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find the program of workers: %w", err)
	}
	if to, err := os.Readlink(path); err == nil {
		path = to
	}
	resolved, err := b.Resolve(path)
	if err == nil {
		if found, err := os.Stat(b.Path(resolved)); err == nil && os.SameFile(found, same) {
			return resolved, nil
		}
	}
	return "", fmt.Errorf("%s needs the program of nettoll at %q, where it no longer is (start nettoll again)", b.Name,
		path)
}

// process returns the PID, on the machine, of a container with this network namespace.
func (b *Borrowed) process(container string, ns *os.File) (int, error) {
	pid, err := b.Process(container)
	if err != nil {
		return 0, err
	}
	within, err := b.Within(pid, ns)
	if within {
		return pid, nil
	}
	return 0, errors.Join(fmt.Errorf("%s is in another PID namespace than nettoll: process %d is not its container",
		b.Name, pid), err)
}

// settle keeps that the daemon has answered the command that makes a container, with an error or not. A command that
// was killed has not waited for that.
func (m *Made) settle(k *host.Kernel, err error) error {
	exit, failed := errors.AsType[*exec.ExitError](err)
	if m.Settled = err == nil || failed && exit.Exited(); !m.Settled {
		return nil
	}
	return k.Keep(m)
}
