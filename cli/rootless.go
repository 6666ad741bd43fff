package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/userns"
)

// Hosts on this machine need privileges that an ordinary user has only in a user namespace. Without them, commands that
// build hosts start themselves again inside one: `nettoll user-namespace --file … COMMAND …`. The process outside
// passes on interrupts and the exit status, and otherwise waits.

const (
	userNamespaceCommand = "user-namespace"

	outsideFile = "outside" // a pipe that closes when the process outside ends
	heardFile   = "heard"   // a pipe: the process inside writes to it when it is interrupted

	// heardLimit is how long the process outside waits for heardFile before it passes a signal on.
	heardLimit = 100 * time.Millisecond
)

// inner is the state that a process inside a user namespace shares with the one outside that started it.
type inner struct {
	heard *os.File // nil if a user started the process by hand
}

// insideArguments returns the command line of a process inside a user namespace. In any other process it returns nil
// and the arguments unchanged.
func insideArguments(args []string) (*inner, []string, error) {
	if len(args) == 0 || args[0] != userNamespaceCommand {
		return nil, args, nil
	}
	args = args[1:]
	var values []string
	for len(args) > 1 && args[0] == "--file" {
		values, args = append(values, args[1]), args[2:]
	}
	files, err := process.Inherited(values)
	if err != nil {
		return nil, nil, err
	}
	if outside := files[outsideFile]; outside != nil {
		go dieWith(outside)
	}
	return &inner{heard: files[heardFile]}, args, nil
}

// dieWith ends this process when the other end of the pipe is closed. It backs up the kernel's death signal, which can
// be lost.
func dieWith(outside io.Reader) {
	_, _ = outside.Read(make([]byte, 1)) // nothing is ever written
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
}

// interrupted tells the process outside that the signal has arrived here too.
func (i *inner) interrupted() {
	if i != nil && i.heard != nil {
		_, _ = i.heard.Write([]byte{1}) // the process outside may have ended
	}
}

// privileges finds out what this process may do, and gets more in a user namespace.
type privileges struct {
	Streams
	args    []string // the command line
	inner   *inner   // nil outside of a user namespace made for it
	release func()   // leaves interrupts to another handler
	refused error    // why hosts cannot be built here; nil if they can
}

// rootless runs the command line inside a user namespace if this process lacks the privileges that hosts need. It
// returns true when that has ended. If it cannot, it keeps the reason in refused: the command line is checked first.
func (p *privileges) rootless() (ended bool, err error) {
	if err := threads(ownThreads); err != nil {
		return true, err
	}
	missing, err := userns.Missing()
	switch {
	case err != nil:
		p.refused = err
		return false, nil
	case len(missing) == 0:
		return false, nil
	case p.inner != nil:
		p.refused = &linux.UnsupportedError{
			What: "build hosts as an ordinary user", Missing: strings.Join(missing, " and ") +
				" in the user namespace made for it", Hint: userns.Hint(os.DirFS("/")),
		}
		return false, nil
	}
	code, err := p.again()
	if errors.Is(err, errors.ErrUnsupported) {
		p.refused = fmt.Errorf("without %s: %w", strings.Join(missing, " and "), err)
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("start again in a user namespace: %w", err)
	}
	return true, status(code)
}

// again runs the command line inside a user namespace and returns its exit status.
func (p *privileges) again() (int, error) {
	outside, alive, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer alive.Close()
	defer outside.Close()
	heard, notice, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer heard.Close()
	defer notice.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"nettoll", userNamespaceCommand}, Stdin: p.In, Stdout: p.Out,
		Stderr: p.Err,
	}
	process.Pass(cmd, map[string]*os.File{outsideFile: outside, heardFile: notice})
	cmd.Args = append(cmd.Args, p.args...)

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, ends()...)
	defer signal.Stop(signals)
	if err := process.Start(cmd, process.Options{User: true}); err != nil {
		return 0, err
	}
	p.release() // the process inside knows what to do on an interrupt
	_ = outside.Close()
	_ = notice.Close()
	ended, known := make(chan struct{}), make(chan struct{})
	go func() {
		_ = cmd.Wait() // the process state has the exit status
		close(ended)
	}()
	go func() {
		if n, _ := heard.Read(make([]byte, 1)); n > 0 {
			close(known)
		}
	}()
	if second, ok := pass(cmd.Process, signals, known, ended).(syscall.Signal); ok {
		return 128 + int(second), nil // the status that a shell reports for it
	}
	return process.ExitStatus(cmd.ProcessState), nil
}

// pass passes an interrupt on to the process inside, unless that got it too. Terminals and programs such as timeout(1)
// send it to both, and the process inside would take another one for the second. The second one kills the process
// inside, and pass returns it.
func pass(to *os.Process, signals <-chan os.Signal, known, ended <-chan struct{}) os.Signal {
	var first os.Signal
	var late <-chan time.Time
	for {
		select {
		case s := <-signals:
			if first != nil {
				_ = to.Kill() // it may have ended
				<-ended
				return s
			}
			first, late = s, time.After(heardLimit)
		case <-late:
			select {
			case <-known:
			default:
				_ = to.Signal(first) // it may have ended
			}
		case <-ended:
			return nil
		}
	}
}

// user returns the id of the user outside of the user namespace that nettoll made.
func (p *privileges) user() (int, error) {
	if p.inner != nil { // root inside
		return userns.Parent()
	}
	return os.Geteuid(), nil
}

// ownInterrupts leaves interrupts to the caller: the first one cancels the context without a message.
func (p *privileges) ownInterrupts(ctx context.Context) (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, ends()...)
	p.release()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-signals:
			p.inner.interrupted()
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}
