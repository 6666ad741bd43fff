package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/agent"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/board"
	"github.com/nettoll/nettoll/traffic/remote"
	"github.com/nettoll/nettoll/worker"
)

// Names of inherited files of workers, in addition to those of the board. A number or name follows.
const (
	softirqdFile = "ksoftirqd:" // schedstat of the thread ksoftirqd of a CPU
	probeFile    = "probe:"     // what a probe counts in
)

// Worker returns the host of a worker, from the files that it has inherited. The worker runs in a container, or beside
// containers if that is "". If it has inherited no board, its controller is on another machine and passes the turn by
// calls.
func Worker(files map[string]*os.File, container string) worker.Host {
	h := worker.Host{
		Enter:    enter,
		Pin:      process.SetOwnAffinity,
		RunTime:  process.RunTime,
		OpenTurn: func(m traffic.Meters) (traffic.Turn, error) { return board.Open(files, m) },
		Probed:   func(name string) *os.File { return files[probeFile+name] },
	}
	if !board.Inherited(files) {
		turn := remote.NewTurn()
		h.OpenTurn, h.TurnMethods = turn.Open, turn.Methods()
	}
	for name, f := range files {
		if strings.HasPrefix(name, softirqdFile) {
			h.Softirqd = append(h.Softirqd, f)
		}
	}
	if container != "" {
		h.RunTime = func(pid int) time.Duration { return process.RunTimeIn(files[agent.Processes], pid) }
		h.Enter = func(namespace string, f func() error) error {
			if namespace != "" && namespace != container {
				return fmt.Errorf("enter namespace %q: this worker is in container %q", namespace, container)
			}
			return f()
		}
	}
	return h
}

// enter calls f with its thread in a namespace of this process's host.
func enter(namespace string, f func() error) error {
	if namespace == "" {
		return f()
	}
	ns, err := netns.Open(filepath.Join(host.DefaultDir, namespace))
	if err != nil {
		return err
	}
	defer ns.Close()
	return netns.Do(int(ns.Fd()), f)
}
