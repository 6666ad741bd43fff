package pulse

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/shm"
	"github.com/nettoll/nettoll/internal/linux/thread"
)

const (
	role    = "NETTOLL_TEST_PULSE" // selects a role of the test binary
	parent  = "parent"             // starts the process and ends, so that the process is not a child of the tests
	beats   = "beats"              // is the process
	beat    = 2 * time.Millisecond
	slow    = time.Millisecond // a smaller delay of a beat does not count
	ready   = 2 * time.Second  // how long to wait for the first one
	mostCPU = 1024
	first   = 3 // the first descriptor of exec.Cmd.ExtraFiles
)

// pulse is the memory that the process writes for one CPU.
type pulse struct {
	count   atomic.Int64
	stopped atomic.Int64 // ns
	_       [48]byte     // a cache line of its own
}

// heart is the process, if there is one.
//
//nolint:gochecknoglobals // one of the test binary
var heart struct {
	wanted bool
	once   sync.Once
	ended  chan struct{}
	input  io.Closer // the process lasts until this ends
	pulses []pulse
}

// Around runs tests, in which [Stopped] may be called, and returns their exit status.
func Around(tests func() int) int {
	switch os.Getenv(role) {
	case parent:
		in, out := os.Stdin, os.Stdout //nolint:forbidigo // they are handed on
		return status(start(beats, in, out, os.NewFile(first, "pulses")).Start())
	case beats:
		return status(serve())
	}
	heart.wanted = true
	code := tests()
	heart.wanted = false
	if heart.input != nil {
		heart.input.Close()
		<-heart.ended
	}
	return code
}

func status(err error) int {
	if err != nil {
		fmt.Fprintf(os.Stderr, "pulse: %v\n", err) //nolint:forbidigo // it is the main function of a test binary
		return 1
	}
	return 0
}

// start returns a command of this program in a role.
func start(as string, in, out, memory *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), role+"="+as)
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = in, out, []*os.File{memory}
	return cmd
}

// serve is the main function of the process. It ends with the test's process.
func serve() error {
	debug.SetGCPercent(-1) // sleeping threads hold their processor, and a garbage collection would wait for them
	pulses, err := mapped(os.NewFile(first, "pulses"))
	if err != nil {
		return err
	}
	cpus, err := thread.CPUs()
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(len(cpus) + 2)
	failed := make(chan error)
	for _, cpu := range cpus {
		if cpu < mostCPU {
			go func() { failed <- measure(cpu, &pulses[cpu]) }()
		}
	}
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin) //nolint:forbidigo // it is a process of its own
		failed <- err
	}()
	return <-failed
}

// measure records how long a CPU did not run.
func measure(cpu int, p *pulse) error {
	runtime.LockOSThread()
	if err := thread.Pin(cpu); err != nil {
		return err
	}
	if err := urgent(1); err != nil {
		return err
	}
	nap := unix.NsecToTimespec(int64(beat))
	for {
		before := clock.Now()
		// A signal of the Go runtime ends the sleep early, which is not a stop.
		_, _, _ = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&nap)), 0, 0, 0)
		if late := clock.Now() - before - int64(beat); late > int64(slow) {
			p.stopped.Add(late)
		}
		p.count.Add(1)
	}
}

// urgent gives the calling thread priority over all threads without a real-time priority, or with a lower one.
func urgent(priority uint32) error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return fmt.Errorf("sched_setattr: %w", err)
	}
	return nil
}

func mapped(f *os.File) ([]pulse, error) {
	memory, err := shm.Map(f)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*pulse)(unsafe.Pointer(&memory[0])), mostCPU), nil
}

// Stopped returns how long each CPU has not run from the first call until now; it waits for a beat of each. It is empty
// outside [Around], and if threads may not be urgent.
func Stopped() map[int]time.Duration {
	if !heart.wanted {
		return nil
	}
	heart.once.Do(func() {
		done := make(chan struct{})
		go func() { // the calling thread may be in a temporary namespace
			defer close(done)
			begin()
		}()
		<-done
	})
	all := map[int]time.Duration{}
	for cpu := range heart.pulses {
		p := &heart.pulses[cpu]
		now := p.count.Load()
		if now == 0 {
			continue
		}
		for p.count.Load() == now {
			select {
			case <-heart.ended:
				panic("pulse: the process has ended: a test must end only what it has started")
			case <-time.After(beat / 4):
			}
		}
		all[cpu] = time.Duration(p.stopped.Load())
	}
	return all
}

// begin starts the process.
func begin() {
	memory, err := shm.Create("pulses", mostCPU*int(unsafe.Sizeof(pulse{})))
	if err != nil {
		return
	}
	defer memory.Close()
	pulses, err := mapped(memory)
	if err != nil {
		return
	}
	in, input, err := os.Pipe()
	if err != nil {
		return
	}
	defer in.Close()
	output, out, err := os.Pipe()
	if err != nil {
		input.Close()
		return
	}
	err = start(parent, in, out, memory).Run()
	out.Close()
	if err != nil {
		input.Close()
		output.Close()
		return
	}
	heart.ended, heart.input, heart.pulses = make(chan struct{}), input, pulses
	go func() {
		_, _ = io.Copy(io.Discard, output) // it has no output: its end is the end of the process
		output.Close()
		close(heart.ended)
	}()
	for late := time.After(ready); ; {
		select {
		case <-heart.ended:
			return
		case <-late:
			return
		case <-time.After(beat):
		}
		beating := 0
		for i := range pulses {
			if pulses[i].count.Load() > 0 {
				beating++
			}
		}
		if cpus, err := thread.CPUs(); err != nil || beating == len(cpus) {
			return
		}
	}
}
