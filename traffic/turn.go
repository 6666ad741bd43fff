package traffic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// DrainLimit is how long the end of a trial may take after its window has closed (design, "Window").
const DrainLimit = 20 * time.Millisecond

// Turns is the controller's end of the turn: it runs the trials of a block one after the other, on threads of worker
// processes. [Turn] is the workers' end. The board in shared memory (traffic/board) is the implementation for hosts of
// this machine. Hosts that share no memory with the controller have traffic/remote, with the same engine and workloads.
type Turns interface {
	// SetCell describes a cell. It must not be called while a block runs.
	SetCell(cell int, p CellPlan) error
	// Run runs one block: a trial of each cell in order, one after the other. It returns the timings of the trials,
	// with Done set for those that ended, even after an error. The error is ctx.Err() after an interruption (the
	// running trial is finished if it ends soon), a [StalledError], or a [LostError]. threads returns the number of
	// threads of each worker, to name missing ones.
	Run(ctx context.Context, order []int, threads func(worker int) int) ([]Timing, error)
	// Files returns the files that workers' processes inherit, by name, to open their end. They stay open until Close.
	Files() map[string]*os.File
	// Close releases everything. No block may be running.
	Close() error
}

// Called are turns that pass by calls to the workers, which may be on other machines.
type Called interface {
	Turns
	// Join connects a worker by its number, or the process that replaces it. It may be called from several goroutines, but
	// not while a block runs.
	Join(worker int, call Caller)
}

// Metering turns read machines before and after trials, see [Timing.Metered].
type Metering interface {
	Called
	// At says on which machine a worker is, after it has joined. The machines of the workers of a trial are read then, and
	// no others; all, if that was said of none.
	At(worker int, machine string)
}

// Caller calls a method of a worker, like [protocol.Client.Call]. Calls do not wait for each other.
//
// [protocol.Client.Call]: https://pkg.go.dev/github.com/nettoll/nettoll/host/protocol#Client.Call
type Caller func(ctx context.Context, method string, params, result any) error

// Turn is a worker's end of the turn. Its threads call it before and after a trial, never in its loop. Tickets number
// trials, from 1.
type Turn interface {
	// Last returns the ticket of the last trial to which the worker was called; 0 before the first.
	Last(worker int) uint32
	// Await sleeps until the worker has the turn for a trial other than last, and returns its ticket.
	Await(worker int, last uint32) (uint32, error)
	// Cell returns the cell of a ticket; false if the ticket does not belong to the running block.
	Cell(ticket uint32) (int, bool)
	// Arrive waits until all threads of the trial have arrived and returns its window, or [ErrGate].
	Arrive(ticket uint32, s Seat) (Window, error)
	// Leave ends a thread's part in the trial; the last one passes the turn on.
	Leave(ticket uint32, s Seat)
	// Ordered informs the race detector that the turn orders what the calling thread has seen, and what it sees from
	// here on: a worker is called before or after a block, never while it runs.
	Ordered()
}

// Meters read counters outside a trial's traffic. They are called by whatever opens the gate, just before it opens, and
// by the last thread to leave; never by two threads at once. They do not allocate.
type Meters struct {
	Softirqd func() int64 // ns of run time of the ksoftirqd threads; nil: not watched
	Probe    func() int64 // the probe's counter so far; nil: nothing is probed
}

// Layout is the number of workers, threads and cells that take turns.
type Layout struct {
	Workers int // worker processes, all labs together
	Pairs   int // threads of the worker with the most threads
	Cells   int
}

// A CellPlan describes the trials of a cell.
type CellPlan struct {
	Workers []int         // numbers in the turn of the workers that take part
	Threads []int         // how many threads of each of them take part
	Warm    time.Duration // from the opening to the start of the window
	Length  time.Duration // from the opening to the close; includes Warm
}

// Timing is what the turn recorded about one trial. Times are CLOCK_MONOTONIC.
type Timing struct {
	Cell     int
	Done     bool          // all threads have left, and the trial counts
	Opened   int64         // ns
	Dead     time.Duration // from the end of the trial before (or the start of the block) to the opening
	Drain    time.Duration // from the close until the last thread has left
	Softirqd time.Duration // run time of the watched ksoftirqd threads during the trial
	Probe    int64         // what [Meters.Probe] counted during the trial; 0 if nothing is probed
	// Metered is what machines counted from before the opening until all threads had left; nil if nobody reads that.
	Metered []Metered

	// Refused is why a trial does not count although all threads have left: the windows of its workers did not overlap
	// as they must. Done is false then. It is "" on one machine, where a trial has one window.
	Refused string
	// Late is how long after the opening the last thread began. 0 on one machine, where the gate is the opening.
	Late time.Duration
	// Skew is how far apart the windows of two workers may have been at most: the sum of the two largest errors of their
	// clocks' offsets. 0 if only one worker takes part, and on one machine, which has one clock.
	Skew time.Duration
	// Apart is how far apart the clocks of two workers are at most, by these offsets. Its error is Skew.
	Apart time.Duration
}

// A StalledError names the threads that blocked a trial.
type StalledError struct {
	Cell    int
	Missing []Seat // threads that have not arrived, or not left
	Opened  bool   // the trial had begun
}

// A LostError names a worker that cannot be asked any more, such as one whose connection has ended.
type LostError struct {
	Worker int
	Err    error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("worker %d does not take its turn: %v", e.Worker, e.Err)
}

// Unwrap returns why.
func (e *LostError) Unwrap() error { return e.Err }

// Seat is one thread of one worker.
type Seat struct{ Worker, Pair int }

func (e *StalledError) Error() string {
	verb := "did not start"
	if e.Opened {
		verb = "did not finish"
	}
	return fmt.Sprintf("%d threads %s the trial of cell %d", len(e.Missing), verb, e.Cell)
}

// Window holds the times of a trial, in nanoseconds of CLOCK_MONOTONIC: the loops run from Open to Close, and messages
// sent from Start on count.
type Window struct{ Open, Start, Close int64 }

// ErrGate is the error for threads whose trial did not open because others did not arrive.
var ErrGate = errors.New("the other threads of this trial did not start")
