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

// Turns is the controller's end of the turn: it lets the trials of a block happen one after the other, on threads of
// worker processes. [Turn] is the workers' end. The board in shared memory (traffic/board) is the implementation for
// hosts of this machine. A host that shares no memory with the controller needs another one, and no other engine or
// workload.
type Turns interface {
	// SetCell describes a cell. Not while a block runs.
	SetCell(cell int, p CellPlan) error
	// Run lets one block happen: a trial of each cell of order, one after the other. It returns the trials' timings, those
	// that ended marked Done, also with an error: ctx.Err() after an interruption (the running trial is finished if it
	// ends soon) or a [StalledError]. Threads says how many threads each worker has, for naming the missing.
	Run(ctx context.Context, order []int, threads func(worker int) int) ([]Timing, error)
	// Files are what the workers' processes inherit, by name, to open their end with. They stay open until Close.
	Files() map[string]*os.File
	// Close gives everything back. No block runs.
	Close() error
}

// Turn is a worker's end of the turn. Its threads call it before and after a trial, never in the loop of one. Tickets
// number trials, from 1.
type Turn interface {
	// Last returns the ticket of the last trial that the worker was called to; 0 before the first.
	Last(worker int) uint32
	// Await sleeps until the worker has the turn for another trial than last, and returns its ticket.
	Await(worker int, last uint32) (uint32, error)
	// Cell returns the cell of a ticket; false if the ticket is not of the running block.
	Cell(ticket uint32) (int, bool)
	// Arrive waits until all threads of the trial have arrived and returns its window, or [ErrGate].
	Arrive(ticket uint32, s Seat) (Window, error)
	// Leave ends a thread's part in the trial; the last one passes the turn on.
	Leave(ticket uint32, s Seat)
	// Ordered tells the race detector that what the calling thread has seen, and sees from here on, is ordered by the
	// turn: a worker is asked before or after a block, never while it runs.
	Ordered()
}

// Meters read what is counted beside a trial. The last thread to arrive and the last to leave call them; they allocate
// nothing.
type Meters struct {
	Softirqd func() int64 // ns of run time of the ksoftirqd threads; nil: not watched
	Probe    func() int64 // what a probe has counted so far; nil: nothing is probed
}

// Layout is how many workers, threads and cells take turns.
type Layout struct {
	Workers int // worker processes, all labs together
	Pairs   int // threads of the worker with most of them
	Cells   int
}

// A CellPlan describes the trials of a cell.
type CellPlan struct {
	Workers []int         // board numbers of the workers that take part
	Threads int           // of all of them together
	Warm    time.Duration // from the opening to the start of the window
	Length  time.Duration // from the opening to the close; includes Warm
}

// Timing is what the turn recorded of one trial. Times are CLOCK_MONOTONIC.
type Timing struct {
	Cell     int
	Done     bool          // all threads have left
	Opened   int64         // ns
	Dead     time.Duration // from the end of the trial before (or the start of the block) to the opening
	Drain    time.Duration // from the close to the last thread's leaving
	Softirqd time.Duration // run time of the watched ksoftirqd threads during the trial
	Probe    int64         // what [Meters.Probe] has counted during the trial; 0 if nothing is probed
}

// A StalledError names the threads that held a trial up.
type StalledError struct {
	Cell    int
	Missing []Seat // threads that have not arrived, or not left
	Opened  bool   // the trial had begun
}

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

// ErrGate is returned to threads whose trial did not open because others did not arrive.
var ErrGate = errors.New("the other threads of this trial did not start")
