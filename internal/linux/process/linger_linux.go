package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Linger is the main function of PID 1 of a container that others enter. It reaps the processes that become its
// children, and returns when no other process has been there for the time alone, or when ctx ends. The first of them
// may take that much longer to come.
func Linger(ctx context.Context, alone, first time.Duration) error {
	tick := time.NewTicker(min(time.Second, alone/5))
	defer tick.Stop()
	for end := time.Now().Add(alone + first); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := reap(); err != nil {
			return err
		}
		accompanied, err := others()
		switch {
		case err != nil:
			return err
		case accompanied:
			end = time.Now().Add(alone)
		case time.Now().After(end):
			return nil
		}
	}
}

// reap collects the children that have ended.
func reap() error {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD), err == nil && pid == 0:
			return nil
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		}
	}
}

// others reports whether /proc shows a process besides this one.
func others() (bool, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return false, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, fmt.Errorf("list processes: %w", err)
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			return true, nil
		}
	}
	return false, nil
}
