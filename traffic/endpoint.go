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

// Slices is into how many equal parts a stream's trial is cut to find where its rate is steady.
const Slices = 20

// Sample is what one side of one pair saw of one trial. "Inside the window" means sent from Window.Start to Window.Close and,
// where it was received, by the end marker.
type Sample struct {
	Sent      int64        `json:"sent"`                // packets or requests inside the window
	Received  int64        `json:"received"`            // of those, packets or responses that arrived, each counted once
	Errors    int64        `json:"errors,omitempty"`    // responses that say that something failed, or not what they should: none of those received
	Late      int64        `json:"late,omitempty"`      // of another trial or already given up: not counted as received
	Repeated  int64        `json:"repeated,omitempty"`  // further copies of packets that were received, inside the window
	Reordered int64        `json:"reordered,omitempty"` // of those received, packets that came after one with a higher number (RFC 4737)
	Total     int64        `json:"total"`               // packets or requests of the whole trial, warm-up included
	Bytes     int64        `json:"bytes,omitempty"`     // payload of the whole trial; of flows (traffic/flows), of what was received inside the window
	CPU       int64        `json:"cpu"`                 // ns of run time of the thread from opening to leaving
	Beside    int64        `json:"beside,omitempty"`    // of CPU, ns of the programs that carry this thread's packets besides the kernel: a switch in user space
	User      int64        `json:"user,omitempty"`      // of CPU, ns outside the kernel, which counts them in ticks: right on average only
	Delayed   int64        `json:"delayed,omitempty"`   // ns in which the thread was ready to run and had no CPU; tcp-stream only
	Awaited   int64        `json:"awaited,omitempty"`   // of the messages received, those that there was nothing to receive before
	Dropped   int64        `json:"dropped,omitempty"`   // messages of the whole trial that the kernel threw away at this side's full receive buffer
	Blocked   int64        `json:"blocked,omitempty"`   // how many times a send had to wait: the path held a whole send buffer
	Backlog   int64        `json:"backlog,omitempty"`   // most messages that were due and not sent yet
	Unsent    int64        `json:"unsent,omitempty"`    // messages that were due inside the window and not sent by its close: in no other figure
	Capacity  int64        `json:"capacity,omitempty"`  // messages a second that the path can carry, as far as the source has found out
	First     int64        `json:"first,omitempty"`     // ns: latency of the first message of a flow, which is not among the recorded ones
	Jitter    int64        `json:"jitter,omitempty"`    // ns: how the one-way times of messages that came one after the other on a flow differ, added up; inside the window
	Flows     int64        `json:"flows,omitempty"`     // flows that a message came on inside the window
	Setup     int64        `json:"setup,omitempty"`     // ns from the beginning of the first connection to the last one's being established
	Span      int64        `json:"span"`                // ns from opening to leaving; of a foreign program: in which its traffic flowed
	Window    int64        `json:"window,omitempty"`    // ns that counted, where a foreign program chose them; else 0
	Resent    int64        `json:"resent,omitempty"`    // TCP segments sent again
	TCP       sock.TCPInfo `json:"tcp,omitzero"`        // of the connections that this side sends on
	Busy      int64        `json:"busy,omitempty"`      // local ports that a connection was to be made from, and an earlier one still had
	Planted   int64        `json:"planted,omitempty"`   // ns that a sink has spun on purpose (study only)
	Delivered []int64      `json:"delivered,omitempty"` // bytes delivered from the opening to the end of each slice: Slices+1 values, the first 0
	Playback  Playback     `json:"playback,omitzero"`   // of videos: at the sink
	Failure   string       `json:"failure,omitempty"`   // why the trial is not to be used
	Doubt     string       `json:"doubt,omitempty"`     // what the reader should know
	Foreign   Foreign      `json:"foreign,omitzero"`    // further figures of a foreign program
}

// Endpoint is one side of one pair for one workload: the open socket and the loop that drives it. All methods are called from the
// locked thread of its pair, Sample and Recorders from elsewhere between blocks.
type Endpoint interface {
	// Prepare forgets the last trial, on the wire too.
	Prepare(trial uint64)
	// Run drives the trial from the opening to the end of the drain. It allocates nothing.
	Run(trial uint64, w Window)
	// Sample returns what the last trial left.
	Sample() *Sample
	// Recorders returns the durations of the last trial.
	Recorders() Recorders
	// Facts reads what the kernel granted.
	Facts() (sock.Facts, error)
	// Close closes the sockets.
	Close()
}

// Collector is implemented by endpoints that have something to read between the end of a block and the collection of their samples.
type Collector interface {
	Collect()
}

// Thread is the life of one locked thread: it takes the turns of its seat until the process ends.
type Thread struct {
	Board     *Board
	Seat      Seat
	CPUs      []int                   // where it runs; nil: anywhere
	Run       uint64                  // what makes trial ids of this run differ from those of another
	Endpoint  func(cell int) Endpoint // nil where it has no part
	Softirqd  func() int64            // see Board.Arrive
	Beside    func() time.Duration    // run time so far of what carries this thread's packets besides the kernel; nil: nothing does
	Ready     chan<- error            // gets nil and then nothing, or the reason why there will be no thread
	ThreadIDs chan<- int              // gets the thread's id before Ready
}

// Serve never returns, except where Ready said why. A turn that cannot be waited for ends the process, which the controller notices
// and names.
func (t *Thread) Serve() {
	runtime.LockOSThread()
	if len(t.CPUs) > 0 {
		if err := thread.Pin(t.CPUs...); err != nil {
			t.Ready <- err
			return
		}
	}
	last := t.Board.Turn(t.Seat.Worker)
	t.ThreadIDs <- thread.ID()
	t.Ready <- nil
	for {
		ticket, err := t.Board.Await(t.Seat.Worker, last)
		if err != nil {
			panic(err)
		}
		last = ticket
		cell, ok := t.Board.Cell(ticket)
		if !ok {
			continue // the block is over: this thread slept through it
		}
		e := t.Endpoint(cell)
		if e == nil {
			continue // the trial stalls, is named by its gate and fails: there is nobody else to tell
		}
		trial := t.Run<<32 | uint64(ticket)
		e.Prepare(trial)
		w, err := t.Board.Arrive(ticket, t.Seat, t.Softirqd)
		if errors.Is(err, ErrGate) {
			e.Sample().Failure = err.Error()
			continue
		}
		t.drive(e, trial, w)
		t.Board.Leave(ticket, t.Seat, t.Softirqd)
	}
}

// drive is Drive, and counts what carries the packets.
func (t *Thread) drive(e Endpoint, trial uint64, w Window) {
	if t.Beside == nil {
		Drive(e, trial, w)
		return
	}
	before := t.Beside()
	Drive(e, trial, w)
	s := e.Sample()
	s.Beside = int64(t.Beside() - before)
	s.CPU += s.Beside
}

// Drive lets an endpoint run its trial, and notes what that took of the calling thread, which is locked.
func Drive(e Endpoint, trial uint64, w Window) {
	s := e.Sample()
	user, cpu := thread.UserTime(), thread.RunTime()
	e.Run(trial, w)
	s.CPU += thread.RunTime() - cpu // on top of what an endpoint's own processes took
	s.User += thread.UserTime() - user
	s.Span = clock.Now() - w.Open
}

// Softirqd returns a function that adds up the run times, in nanoseconds, in open /proc/PID/schedstat files of ksoftirqd threads,
// for [Board.Arrive]. It returns nil for no files. The function is called by one thread at a time and allocates nothing.
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

// leadingInt returns the decimal number that b starts with.
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
