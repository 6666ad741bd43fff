package runtime

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
)

// A Starting is a worker that the program of a runtime is about to start in a container. Its arguments, environment and
// inherited files are those of Worker, and its standard files are In, Out and Err, which the program has to pass on.
type Starting struct {
	Worker *exec.Cmd
	// Program is where the host finds the program of the worker.
	Program      string
	In, Out, Err *os.File
	// Limits are those of the container.
	Limits Limits
	// OutOfMemory, if not nil, reports whether the worker, which has ended, was ended because memory ran out. By default
	// its cgroup says so. A runtime that removes the cgroups of a container that has ended knows better.
	OutOfMemory func() bool

	by        *Borrowed // the daemon of the machine that starts it, nil if its host does
	known     string    // the name of the container for that daemon
	container string
	rights    Rights
	ours      [3]*os.File // the other ends of In, Out and Err
}

// prepare prepares the worker of a container. [Starting.Started] or [Starting.Failed] has to follow.
func prepare(k *host.Kernel, container string, by *Borrowed) (s *Starting, err error) {
	s = &Starting{container: container, by: by}
	if s.Worker, err = k.WorkerCommand(container); err != nil {
		return nil, err
	}
	if s.Program, err = executable(k, s.Worker.Path, by); err != nil {
		return nil, err
	}
	for i, theirs := range []**os.File{&s.In, &s.Out, &s.Err} {
		read, write, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		if *theirs, s.ours[i] = write, read; i == 0 { // an input
			*theirs, s.ours[i] = read, write
		}
	}
	return s, nil
}

// Started gives the worker to the host, once it runs with this PID.
func (s *Starting) Started(k *host.Kernel, pid int) error {
	s.closeTheirs()
	r, proc := host.Resident{In: s.ours[0], Out: s.ours[1], Ended: s.ended}, "/proc"
	if s.by != nil {
		proc, r.Kill = s.by.Path(proc), func() { s.by.Kill(s.known) }
		r.Status = func() string { return s.by.Status(s.known) }
		k.Joined(pid)
	}
	group, err := cgroup.Of(proc, pid)
	if r.Group = group; s.OutOfMemory == nil {
		s.OutOfMemory = group.OutOfMemory
	}
	if err == nil {
		err = k.Settle(s.container, r, pid, s.ours[2])
	}
	if err != nil {
		s.close()
	}
	return err
}

// ended says how the worker has ended, given its exit status or signal.
func (s *Starting) ended(status string) string {
	if s.OutOfMemory() {
		return s.Limits.exceeded()
	}
	how := fmt.Sprintf("it has ended (%s), and its container with it", status)
	if s := s.rights.suspicion(); s != "" {
		how += "; " + s
	}
	if s.by != nil {
		if err := s.by.Answers(); err != nil {
			how += "; " + err.Error()
		}
	}
	return how
}

// lastWords is how long what has failed may go on to write: it ends at once, unless a worker runs that has Err.
const lastWords = time.Second

// Failed gives up, and returns what the program has written to Err.
func (s *Starting) Failed() string {
	s.closeTheirs()
	const most = 4096
	_ = s.ours[2].SetReadDeadline(time.Now().Add(lastWords))
	said, _ := io.ReadAll(io.LimitReader(s.ours[2], most))
	s.close()
	return string(said)
}

func (s *Starting) closeTheirs() {
	for _, f := range []*os.File{s.In, s.Out, s.Err} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (s *Starting) close() {
	s.closeTheirs()
	for _, f := range s.ours {
		if f != nil {
			_ = f.Close()
		}
	}
}

// executable returns a path at which the host, or a daemon of the machine, finds a program: /proc/self/exe is that of
// whoever looks.
func executable(k *host.Kernel, path string, by *Borrowed) (string, error) {
	if by != nil {
		return by.executable(path)
	}
	same, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find the program of workers: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		if found, err := os.Stat(resolved); err == nil && os.SameFile(found, same) {
			return resolved, nil
		}
	}
	// It was replaced or removed since it was started, or is where the host does not see it.
	dir, err := k.RunDir("runtime")
	if err != nil {
		return "", err
	}
	return copied(dir, path)
}

// copied returns a copy of a program in a directory. It is made once.
func copied(dir, path string) (string, error) {
	at := filepath.Join(dir, "nettoll")
	if _, err := os.Stat(at); err == nil {
		return at, nil
	}
	from, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("copy the program of workers: %w", err)
	}
	defer from.Close()
	to, err := os.CreateTemp(dir, "copy") // others may be at it, too
	if err != nil {
		return "", fmt.Errorf("copy the program of workers: %w", err)
	}
	defer os.Remove(to.Name())
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Chmod(0o755), to.Close()); err == nil {
		// The first copy stays: a runtime may have opened it, and the kernel mounts no file that has no name any more.
		err = os.Link(to.Name(), at)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return at, err
}
