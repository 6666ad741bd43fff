package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/measure"
)

// Limits for a worker (design, decision 1): seconds of CPU until it answers, and bytes of private memory.
const (
	workerCPU    = 5e-3
	workerMemory = 5e6
)

// startLimit is how long a worker may take to start and answer.
const startLimit = 5 * time.Second

// started is the cost of one worker until it had answered its first call.
type started struct{ wall, cpu, memory float64 } // s, s, bytes

// worker starts the real program as a worker, many times, the same way as an agent does.
func (b *bench) worker(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "nettoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b.say("worker: build nettoll")
	program := filepath.Join(dir, "nettoll")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/nettoll")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build nettoll in the folder of its module: %w: %s", err, out)
	}
	b.say("worker: start it %d times", b.starts)
	// Memory that two workers share is not private, and a lab has at least two.
	_, end, err := start(ctx, program, b.sources)
	if err != nil {
		return err
	}
	defer end()
	var wall, cpu, memory []float64
	for range b.starts {
		s, end, err := start(ctx, program, b.sinks)
		if err != nil {
			return err
		}
		end()
		wall, cpu, memory = append(wall, s.wall), append(cpu, s.cpu), append(memory, s.memory)
	}
	slices.Sort(cpu)
	b.table.add(row{
		what: "start of a worker: CPU time until it has answered its first call",
		ours: fmt.Sprintf("%s (90 %%: %s), after %s", duration(measure.Median(cpu)), duration(quantile(cpu, 0.9)),
			duration(measure.Median(wall))),
		goal: duration(workerCPU), met: within(measure.Median(cpu), workerCPU),
	})
	b.table.add(row{
		what: "memory of a worker then that it shares with no other", ours: megabytes(measure.Median(memory)),
		goal: megabytes(workerMemory), met: within(measure.Median(memory), workerMemory),
	})
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	b.table.add(row{what: "size of the program, which is in every container", ours: megabytes(float64(info.Size()))})
	return nil
}

// start starts a worker and makes its first call. The function that it returns ends the worker.
func start(ctx context.Context, program string, cpus []int) (s started, end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	theirIn, in, err := os.Pipe()
	if err != nil {
		return s, nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return s, nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	var tail process.Tail
	cmd := &exec.Cmd{
		Path: program, Args: []string{"nettoll", "worker", "--name", "bench"}, Stdin: theirIn, Stdout: theirOut,
		Stderr: &tail,
		Env:    append(os.Environ(), "GOGC=off", "GODEBUG=asyncpreemptoff=1"), // the same as an agent sets
	}
	began := time.Now()
	err = process.Start(cmd, process.Options{CPUs: cpus})
	if err = errors.Join(err, theirIn.Close(), theirOut.Close()); err != nil {
		return s, nil, errors.Join(err, in.Close(), out.Close())
	}
	rpc := protocol.Dial(out, in, nil)
	end = func() {
		_ = rpc.Close() // it never fails, and ends the worker's input and so the worker
		_ = cmd.Wait()  // its measurements are complete
	}
	err = rpc.Call(ctx, "hello", nil, nil)
	s.wall = time.Since(began).Seconds()
	if err == nil {
		s.cpu, err = cpuTime(cmd.Process.Pid)
	}
	if err == nil {
		s.memory, err = privateMemory(cmd.Process.Pid)
	}
	if err != nil {
		end()
		return s, nil, errors.New(tail.After(err.Error()))
	}
	return s, end, nil
}

// megabytes formats bytes.
func megabytes(bytes float64) string { return digits(bytes/1e6) + " MB" }

// cpuTime returns the seconds that all threads of a process have run (Documentation/scheduler/sched-stats.rst: the
// first figure, in ns). getrusage(2) would report this only when the process has ended, and include the cost of ending.
func cpuTime(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("read CPU time of process %d: no thread: %w", pid, err)
	}
	sum := 0.0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseFloat(first, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		sum += ns / 1e9
	}
	return sum, nil
}

// privateMemory returns the number of bytes that a process does not share with another (proc_pid_smaps(5)).
func privateMemory(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, fmt.Errorf("read private memory: %w", err)
	}
	return parsePrivate(string(b))
}

func parsePrivate(rollup string) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(rollup) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !strings.HasPrefix(fields[0], "Private_") || fields[2] != "kB" {
			continue
		}
		kB, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return 0, fmt.Errorf("read private memory: %w", err)
		}
		sum += kB * 1024
		found = true
	}
	if !found {
		return 0, fmt.Errorf("read private memory: none in %q", rollup)
	}
	return sum, nil
}
