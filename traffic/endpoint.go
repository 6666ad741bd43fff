package traffic

import (
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/thread"
)

// Sample holds what one side of one pair observed in one trial: fields common to all workloads, and the counters of its
// own workload or engine. "Inside the window" means sent from Window.Start to Window.Close and, for received data,
// received before the end marker.
type Sample struct {
	Sent       int64 `json:"sent"`             // packets or requests inside the window
	Received   int64 `json:"received"`         // of these, packets or responses that arrived, each counted once
	Errors     int64 `json:"errors,omitempty"` // responses that report a failure or are wrong; not among those received
	Late       int64 `json:"late,omitempty"`   // of another trial or already given up: not included in Received
	Unsent     int64 `json:"unsent,omitempty"` // messages that were due inside the window and not sent by its close
	Total      int64 `json:"total"`            // packets or requests of the whole trial, warm-up included
	Bytes      int64 `json:"bytes,omitempty"`  // payload of the whole trial; for flows, received inside the window
	CPU        int64 `json:"cpu"`              // ns of run time of the thread from opening to leaving
	ProgramCPU int64 `json:"beside,omitempty"` // part of CPU, in ns: programs that carry its packets, such as a switch
	// part of CPU, in ns, outside the kernel, which counts it in ticks: a mean over many trials
	User int64 `json:"user,omitempty"`
	// ns for which the thread was ready to run while something else used its CPU, from opening to leaving; Unwatched if
	// unknown
	Waited int64 `json:"waited,omitempty"`
	// ns from opening to leaving; for an external program, ns in which its traffic flowed
	Span   int64 `json:"span"`
	Window int64 `json:"window,omitempty"` // ns that counted, if the endpoint chose them; otherwise 0

	Counts  Counts  `json:"counts,omitempty"`  // counters of the workload or its engine
	Series  Series  `json:"series,omitempty"`  // the same: values over the trial
	Foreign Foreign `json:"foreign,omitzero"`  // further figures of an external program
	Failure string  `json:"failure,omitempty"` // why the trial must not be used
	Doubt   string  `json:"doubt,omitempty"`   // what the reader should know
}

// Unwatched is the value of [Sample.Waited] if the threads were not observed: those of an external program, or if the
// kernel does not report it.
const Unwatched = -1

// Endpoint is one side of one pair for one workload: the open socket and the loop that drives it. All methods are
// called from the locked thread of its pair, except Sample and Recorders, which are called elsewhere between blocks.
type Endpoint interface {
	// Prepare discards the last trial, including packets under way.
	Prepare(trial uint64)
	// Run drives the trial from the opening to the end of the drain. It does not allocate.
	Run(trial uint64, w Window)
	// Sample returns the sample of the last trial.
	Sample() *Sample
	// Recorders returns the durations of the last trial.
	Recorders() Recorders
	// Facts returns what the kernel granted.
	Facts() (sock.Facts, error)
	// Close closes the sockets.
	Close()
}

// Collector is implemented by endpoints that have work to do between the end of a block and the collection of their
// samples. They read the kernel's counters, and put their own counters into [Sample.Counts]. A second call for the same
// trial changes nothing.
type Collector interface {
	Collect()
}

// ConnectLimit is how long connections may take when endpoints open. The kernel repeats a SYN that got no answer after
// 1, 3 and 7 s, or more often (net.ipv4.tcp_syn_linear_timeouts), and a SYN-ACK too, even if only the acknowledgement
// was lost that ends the handshake.
const ConnectLimit = 8 * time.Second

// Thread is one locked thread: it takes the turns of its seat until the process ends.
type Thread struct {
	Turn     Turn
	Seat     Seat
	CPUs     []int                   // where it runs; nil: anywhere
	Run      uint64                  // makes trial ids of this run differ from those of others
	Endpoint func(cell int) Endpoint // nil if the thread takes no part
	// run time so far of the programs that carry this thread's packets; nil: there are none
	ProgramCPU func() time.Duration
	Ready      chan<- error // receives nil and then nothing, or the reason why there will be no thread
	ThreadIDs  chan<- int   // receives the thread's id before Ready
}

// Serve never returns, unless Ready received an error. If the turn cannot be waited for, it ends the process, which the
// controller notices and reports.
func (t *Thread) Serve() {
	runtime.LockOSThread()
	if len(t.CPUs) > 0 {
		if err := thread.Pin(t.CPUs...); err != nil {
			t.Ready <- err
			return
		}
	}
	last := t.Turn.Last(t.Seat.Worker)
	t.ThreadIDs <- thread.ID()
	t.Ready <- nil
	for {
		ticket, err := t.Turn.Await(t.Seat.Worker, last)
		if err != nil {
			panic(err)
		}
		last = ticket
		cell, ok := t.Turn.Cell(ticket)
		if !ok {
			continue // the block is over: this thread slept through it
		}
		e := t.Endpoint(cell)
		if e == nil {
			continue // the trial stalls, and its gate reports this thread: no other thread needs it
		}
		trial := t.Run<<32 | uint64(ticket)
		e.Prepare(trial)
		w, err := t.Turn.Arrive(ticket, t.Seat)
		if errors.Is(err, ErrGate) {
			e.Sample().Failure = err.Error()
			continue
		}
		t.drive(e, trial, w)
		t.Turn.Leave(ticket, t.Seat)
	}
}

// drive is Drive, and also measures the programs that carry the packets.
func (t *Thread) drive(e Endpoint, trial uint64, w Window) {
	if t.ProgramCPU == nil {
		Drive(e, trial, w)
		return
	}
	before := t.ProgramCPU()
	Drive(e, trial, w)
	s := e.Sample()
	s.ProgramCPU = int64(t.ProgramCPU() - before)
	s.CPU += s.ProgramCPU
}

// Drive runs the trial of an endpoint on the calling thread, which is locked, and records its run time and its run
// delay.
func Drive(e Endpoint, trial uint64, w Window) {
	s := e.Sample()
	waited, user, cpu := thread.Delay(), thread.UserTime(), thread.RunTime()
	e.Run(trial, w)
	s.CPU += thread.RunTime() - cpu // added to the time of an endpoint's own processes
	s.User += thread.UserTime() - user
	s.Span = clock.Now() - w.Open
	if after := thread.Delay(); after > 0 {
		s.Waited = after - waited
	} else { // the kernel does not report it
		s.Waited = Unwatched
	}
}

// softirqsRead is the number of bytes of /proc/PID/schedstat that contain the run time (kernel:
// Documentation/scheduler/sched-stats.rst).
const softirqsRead = 32

// Softirqd returns a function that adds up the run times, in nanoseconds, in open /proc/PID/schedstat files of
// ksoftirqd threads, for [Meters]. It returns nil if there are no files. Only one thread at a time may call the
// function, which does not allocate.
func Softirqd(files []*os.File) func() int64 {
	if len(files) == 0 {
		return nil
	}
	buf := make([]byte, softirqsRead)
	return func() int64 {
		var sum int64
		for _, f := range files {
			n, err := f.ReadAt(buf, 0)
			if err != nil && !errors.Is(err, io.EOF) {
				continue
			}
			sum += leadingInt(buf[:n])
		}
		return sum
	}
}

// leadingInt returns the decimal number at the start of b.
func leadingInt(b []byte) int64 {
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
