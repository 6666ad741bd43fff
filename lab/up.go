package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/linux/process"
)

const (
	// OwnerCommand is the command with which this program starts as the owner of a lab: `nettoll lab-owner --name
	// DIRECTORY --file NAME=FD…`.
	OwnerCommand = "lab-owner"

	// The files that an owner inherits.
	lockName   = "lock"
	readyName  = "ready"  // it writes here that the lab is up, or why it is not
	wantedName = "wanted" // end of file: the lab is not wanted any more; one byte: it stays

	// takedown is how long an owner may take to answer, and unwanted how long it may take to end when its lab is not
	// wanted: daemons may need many seconds to remove containers. After that it is killed, and the hosts with it. 'nettoll
	// clean' removes what outlives those.
	takedown = 5 * time.Second
	unwanted = time.Minute
)

// verdict is the message of an owner when the lab is up, or could not be built.
type verdict struct {
	Error string `json:"error,omitempty"`
}

// Up starts a new owner that builds a lab, and returns when the lab is up. If ctx ends before that, the lab is taken
// down.
func (r *Registry) Up(ctx context.Context, name string, spec Spec, experiment []byte) (err error) {
	dir, lock, err := r.Claim(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = r.discard(name, lock) // the owner may already have done so
		}
		_ = lock.Close()
		_ = dir.Close()
	}()
	if err := write(dir, specFile, spec); err != nil {
		return fmt.Errorf("register lab %q: %w", name, err)
	}
	if err := dir.Write(experimentFile, experiment); err != nil {
		return fmt.Errorf("register lab %q: %w", name, err)
	}
	log, err := dir.File(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("register lab %q: %w", name, err)
	}
	defer log.Close()
	said, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	defer ready.Close()
	wanted, want, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wanted.Close()
	defer want.Close()

	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{
		"nettoll", OwnerCommand, "--name", filepath.Join(r.path, name),
	}, Dir: "/", Stdout: log, Stderr: log}
	process.Pass(cmd, map[string]*os.File{lockName: lock, readyName: ready, wantedName: wanted})
	if err := process.Detach(cmd); err != nil {
		return fmt.Errorf("start the owner of lab %q: %w", name, err)
	}
	_ = ready.Close()
	_ = wanted.Close()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state has more information
		close(ended)
	}()
	answer := make(chan []byte, 1)
	go func() {
		line, _ := io.ReadAll(said) // the owner closes it after one message
		answer <- line
	}()
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case line := <-answer:
		var v verdict
		switch uerr := json.Unmarshal(line, &v); {
		case uerr != nil:
			<-ended
			err = fmt.Errorf("the owner of lab %q ended: %s%s", name, cmd.ProcessState, tail(dir))
		case v.Error != "":
			err = errors.New(v.Error)
		default:
			_, err = want.Write([]byte{1})
		}
	}
	if err == nil {
		return nil
	}
	_ = want.Close()
	select {
	case <-ended:
	case <-time.After(unwanted):
		_ = cmd.Process.Kill() // the hosts end with it
		<-ended
		err = fmt.Errorf("%w; its owner did not end within %v and was killed (nettoll clean removes what is left)", err,
			unwanted)
	}
	return err
}

// tail returns the last lines of a lab's log, for an error.
func tail(dir *owned.Dir) string {
	f, err := dir.File(logFile, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	var t process.Tail
	_, _ = io.Copy(&t, f) // whatever can be read is better than nothing
	return t.After("")
}
