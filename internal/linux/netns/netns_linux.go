package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// own is the namespace of the calling thread, proc(5). It requires the /proc of the caller's own PID namespace.
const own = "/proc/thread-self/ns/net"

// Current opens the network namespace of the calling thread.
func Current() (*os.File, error) {
	f, err := os.Open(own)
	if err != nil {
		return nil, fmt.Errorf("open own network namespace: %w", err)
	}
	return f, nil
}

// New makes a network namespace that exists as long as the file, or its mount ([Bind]). It contains only a loopback
// link that is down. inside, if not nil, is called in it like in [Do]. Without CAP_SYS_ADMIN, the error is a
// [linux.UnsupportedError].
func New(inside func() error) (*os.File, error) {
	var f *os.File
	err := away(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return explain("make network namespace", err)
		}
		var err error
		if f, err = Current(); err == nil && inside != nil {
			err = inside()
		}
		return err
	})
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		return nil, err
	}
	return f, nil
}

// Do calls f on a thread inside the network namespace of fd and returns its error. What f opens there (a socket, a
// netlink handle, a file below /proc/sys/net) stays in that namespace; goroutines that f starts are not in it. f must
// not end its goroutine (t.FailNow). A caller that is already in the namespace needs no privilege.
func Do(fd int, f func() error) error {
	if inside(fd) {
		return f()
	}
	return away(func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return explain("enter network namespace of file "+strconv.Itoa(fd), err)
		}
		return f()
	})
}

// Spend is [Do] on a thread that ends with f, whatever f has done to it, such as giving up rights.
func Spend(fd int, f func() error) error {
	err := errors.New("the function ended its goroutine inside the namespace")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // the first thread never ends (runtime.mexit), so f gets another one
			err = Spend(fd, f)
			runtime.UnlockOSThread()
			return
		}
		// It is never unlocked, so the thread ends with this goroutine.
		if !inside(fd) {
			if failed := unix.Setns(fd, unix.CLONE_NEWNET); failed != nil {
				err = explain("enter network namespace of file "+strconv.Itoa(fd), failed)
				return
			}
		}
		err = f()
	}()
	<-done
	return err
}

// inside reports whether the calling thread is in the namespace of fd. A goroutine that is not locked stays there even
// on another thread, because threads in other namespaces are locked.
func inside(fd int) bool {
	var here, there unix.Stat_t
	err := errors.Join(unix.Stat(own, &here), unix.Fstat(fd, &there))
	return err == nil && here.Dev == there.Dev && here.Ino == there.Ino
}

// Here calls f on the calling thread, inside the network namespace of fd. It is for work that this very thread must do,
// such as starting a process that inherits its CPUs and dies with it. The caller has locked the thread. If the thread
// cannot return, it ends the whole process, because nothing else may run in the wrong namespace. A thread that is
// already in the namespace needs no privilege.
func Here(fd int, f func() error) error {
	home, err := Current()
	if err != nil {
		return err
	}
	defer home.Close()
	if inside(fd) {
		return f()
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return explain("enter network namespace of file "+strconv.Itoa(fd), err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("a locked thread cannot leave a network namespace: %v", err))
		}
	}()
	return f()
}

// Bind mounts the namespace at path, so that it outlives its file and other processes of this mount namespace can open
// it there. The path must not exist.
func Bind(ns *os.File, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("bind network namespace: %w", err)
	}
	_ = f.Close()
	if err := unix.Mount("/proc/self/fd/"+strconv.Itoa(int(ns.Fd())), path, "", unix.MS_BIND, ""); err != nil {
		_ = os.Remove(path)
		return explain(fmt.Sprintf("bind network namespace to %q", path), err)
	}
	return nil
}

// Unbind undoes [Bind]. It succeeds if nothing is at path.
func Unbind(path string) error {
	// EINVAL: the path is not a mount (mount(2)); ENOENT: it is gone.
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return explain(fmt.Sprintf("unbind network namespace from %q", path), err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unbind network namespace: %w", err)
	}
	return nil
}

// Open opens the namespace at path. A file that is not a network namespace is an error.
func Open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	// NS_GET_NSTYPE, ioctl_ns(2): the CLONE_NEW… flag of the namespace. ENOTTY for any other file.
	kind, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		_ = f.Close()
		return nil, fmt.Errorf("open network namespace: %q is none", path)
	}
	return f, nil
}

// Same reports whether both files refer to the same namespace.
func Same(a, b *os.File) (bool, error) {
	x, err := a.Stat()
	if err != nil {
		return false, err
	}
	y, err := b.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}

// away calls f on a thread of its own, which f may move to another namespace, and moves it back.
func away(f func() error) error {
	err := errors.New("the function ended its goroutine inside the namespace")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, herr := Current()
		if herr != nil {
			runtime.UnlockOSThread()
			err = herr
			return
		}
		defer func() {
			// A thread that cannot return stays locked, and ends with this goroutine.
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
			_ = home.Close()
		}()
		err = f()
	}()
	<-done
	return err
}

func explain(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return &linux.UnsupportedError{What: what, Missing: "CAP_SYS_ADMIN", Hint: "run it as root", Err: err}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return &linux.UnsupportedError{
			What: what, Missing: "network namespaces", Hint: "use a kernel with CONFIG_NET_NS", Err: err,
		}
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%s: %w (hint: raise user.max_net_namespaces)", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
