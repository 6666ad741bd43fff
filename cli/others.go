package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

const (
	// busyFor is how long the CPU time of other programs is measured before a run.
	busyFor = 200 * time.Millisecond
	// waitEvery is how often a waiting run looks for other runs. sayEvery is how often it prints that it waits.
	waitEvery, sayEvery = 200 * time.Millisecond, 30 * time.Second
)

// meet looks for other work on this machine before a run. With wait it returns when all nettoll runs that started
// before this one have ended. Otherwise it reports such a run on standard error. It also reports other programs that
// use the CPUs.
func meet(ctx context.Context, stderr io.Writer, wait bool) error {
	said := time.Time{}
	for {
		all, err := procfs.ReadPrograms()
		if err != nil {
			return err
		}
		family := procfs.Family(all, os.Getpid())
		runs := procfs.Runs(all, family)
		if wait {
			runs = before(runs, oldest(all, family))
		}
		if len(runs) == 0 {
			break
		}
		first := runs[0]
		if !wait {
			fmt.Fprintf(stderr, "another nettoll run measures on this machine (process %d, %q): both will be slower (hint: "+
				"--wait waits for it to end)\n", first.PID, control.Brief(first.Command))
			break
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			fmt.Fprintf(stderr, "waiting for process %d, %q\n", first.PID, control.Brief(first.Command))
		}
		select {
		case <-time.After(waitEvery):
		case <-ctx.Done():
			return status(exitInterrupted)
		}
	}
	earlier, err := procfs.ReadPrograms()
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-time.After(busyFor):
	case <-ctx.Done():
		return status(exitInterrupted)
	}
	now, err := procfs.ReadPrograms()
	if err != nil {
		return err
	}
	users := procfs.Users(earlier, now, procfs.Family(now, os.Getpid()), time.Since(began).Seconds())
	sum := 0.0
	for _, u := range users {
		sum += u.CPUs
	}
	if sum > control.BusyLimit {
		fmt.Fprintf(stderr, "%s: figures will be less precise\n", control.Busy(sum, users, "use", "now"))
	}
	return nil
}

// oldest returns the process of a family that other runs see as this run. In a user namespace, that is the process
// outside.
func oldest(all map[int]procfs.Program, family map[int]bool) procfs.Program {
	self := all[os.Getpid()]
	for at := self; family[at.Parent]; {
		at = all[at.Parent]
		if len(procfs.Runs(map[int]procfs.Program{at.PID: at}, nil)) > 0 {
			self = at
		}
	}
	return self
}

// before returns the runs that started before a process. The runs are ordered by their start.
func before(runs []procfs.Run, self procfs.Program) []procfs.Run {
	for i, r := range runs {
		if r.Started > self.Started || r.Started == self.Started && r.PID > self.PID {
			return runs[:i]
		}
	}
	return runs
}
