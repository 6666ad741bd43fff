package board

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/futex"
	"github.com/nettoll/nettoll/internal/linux/shm"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// gateLimit is how long threads that have arrived wait for the others. Twenty pairs on one CPU arrive within
	// milliseconds; a thread that is not there after this limit hangs.
	gateLimit = time.Second

	// watchEvery is how often the controller checks whether the block still progresses. It is seldom, because each
	// check takes a CPU away from the trial for a few microseconds.
	watchEvery = time.Second

	// interruptLimit is how long an interrupted trial may go on, so that a run can end within a second. A trial with
	// more time left is abandoned at once.
	interruptLimit = 500 * time.Millisecond

	// stallLimit is how long after its drain a trial may end. After that, it counts as hanging.
	stallLimit = time.Second

	boardMagic  = 0x6e6574746f6c6c31 // "nettoll1"
	maxWorkers  = 32                 // of one cell: two on each of sixteen hosts
	cacheLine   = 64
	wakeAll     = math.MaxInt32
	firstTicket = 1
)

// States of a trial's gate.
const (
	gateClosed = iota
	gateOpen
	gateShut // permanently: the block was abandoned
)

// Everything below is in shared memory: fixed sizes, no pointers. Words on which threads wait have a cache line of
// their own.
type (
	boardHeader struct {
		magic                 uint64
		workers, pairs, cells uint32
		first                 uint32 // ticket of the block's first trial
		count                 uint32 // trials in the block
		abort                 uint32 // not 0: do not pass the turn on
		failed                uint32 // ticket of a trial whose gate did not open; 0 if there is none
		_                     [cacheLine - 8 - 7*4]byte
		finished              uint32 // wait word: changes when the block ends, normally, by abort or by failure
		_                     [cacheLine - 4]byte
	}
	workerSlot struct {
		turn uint32 // wait word: ticket of the trial in which this worker takes part
		_    [cacheLine - 4]byte
	}
	cellSlot struct {
		threads uint32 // of all workers that take part
		workers uint32 // how many of the entries in who are valid
		who     [maxWorkers]uint32
		warm    int64 // ns
		length  int64 // ns, warm-up included
	}
	trialSlot struct {
		cell    uint32
		arrived uint32
		left    uint32
		gate    uint32 // wait word
		opened  int64  // ns, CLOCK_MONOTONIC
		ended   int64  // ns: the last thread left
		softirq int64  // ns of ksoftirqd's run time between opened and ended, all watched CPUs
		probed  int64  // what the probe has counted between opened and ended; 0 if nothing is probed
		_       [cacheLine - 4*4 - 4*8]byte
	}
	// seatState is written by its thread alone and read by the controller when a trial stalls.
	seatState struct {
		arrived uint32 // ticket
		left    uint32 // ticket
	}
)

// Board is where turns pass: memory that the controller and all workers of a machine share. It implements both ends of
// the turn: [traffic.Turns] in the process that called [New], and [traffic.Turn] in one that called [Open].
type Board struct {
	meters traffic.Meters // of this process
	mem    []byte
	file   *os.File // of the controller

	order   order
	h       *boardHeader
	workers []workerSlot
	cells   []cellSlot
	trials  []trialSlot // a block has at most as many trials as there are cells
	seats   []seatState
}

var (
	_ traffic.Turns = (*Board)(nil)
	_ traffic.Turn  = (*Board)(nil)
)

// file is the name under which workers inherit the board.
const file = "board"

// size returns the number of bytes of shared memory for a board with this layout.
func size(l traffic.Layout) int {
	size := unsafe.Sizeof(boardHeader{}) + uintptr(l.Workers)*unsafe.Sizeof(workerSlot{}) +
		uintptr(l.Cells)*(unsafe.Sizeof(cellSlot{})+unsafe.Sizeof(trialSlot{})) +
		uintptr(l.Workers*l.Pairs)*unsafe.Sizeof(seatState{})
	return int(size)
}

// New makes a board. [Board.Close] releases its memory.
func New(l traffic.Layout) (*Board, error) {
	f, err := shm.Create("nettoll-board", size(l))
	if err != nil {
		return nil, err
	}
	mem, err := shm.Map(f)
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	h := (*boardHeader)(unsafe.Pointer(&mem[0]))
	h.workers, h.pairs, h.cells = uint32(l.Workers), uint32(l.Pairs), uint32(l.Cells)
	h.first = firstTicket
	h.magic = boardMagic
	b := overBoard(mem, h)
	b.file = f
	return b, nil
}

// Inherited reports whether files are those that a process inherits if it takes its turns on a board.
func Inherited(files map[string]*os.File) bool { return files[file] != nil }

// Open returns the board of another process, from the files that this process has inherited from it ([Board.Files]).
func Open(files map[string]*os.File, m traffic.Meters) (*Board, error) {
	f := files[file]
	if f == nil {
		return nil, fmt.Errorf("open board: no inherited file %q", file)
	}
	mem, err := shm.Map(f)
	if err != nil {
		return nil, err
	}
	b, err := open(mem)
	if err != nil {
		_ = shm.Unmap(mem)
		return nil, err
	}
	b.meters = m
	return b, nil
}

func open(mem []byte) (*Board, error) {
	if len(mem) < int(unsafe.Sizeof(boardHeader{})) {
		return nil, fmt.Errorf("open board: %d bytes are not enough", len(mem))
	}
	h := (*boardHeader)(unsafe.Pointer(&mem[0]))
	if h.magic != boardMagic {
		return nil, errors.New("open board: the memory holds no board")
	}
	l := traffic.Layout{Workers: int(h.workers), Pairs: int(h.pairs), Cells: int(h.cells)}
	if len(mem) < size(l) {
		return nil, fmt.Errorf("open board of %+v: %d bytes, need %d", l, len(mem), size(l))
	}
	return overBoard(mem, h), nil
}

// Files implements [traffic.Turns].
func (b *Board) Files() map[string]*os.File { return map[string]*os.File{file: b.file} }

// Close implements [traffic.Turns].
func (b *Board) Close() error { return errors.Join(shm.Unmap(b.mem), b.file.Close()) }

func overBoard(mem []byte, h *boardHeader) *Board {
	b := &Board{h: h, mem: mem}
	at := unsafe.Sizeof(boardHeader{})
	b.workers = overlay[workerSlot](mem, &at, int(h.workers))
	b.cells = overlay[cellSlot](mem, &at, int(h.cells))
	b.trials = overlay[trialSlot](mem, &at, int(h.cells))
	b.seats = overlay[seatState](mem, &at, int(h.workers*h.pairs))
	return b
}

// overlay returns n values of type T at offset *at of mem and advances *at past them.
func overlay[T any](mem []byte, at *uintptr, n int) []T {
	if n == 0 {
		return nil
	}
	p := (*T)(unsafe.Pointer(&mem[*at]))
	*at += uintptr(n) * unsafe.Sizeof(*p)
	return unsafe.Slice(p, n)
}

// SetCell implements [traffic.Turns].
func (b *Board) SetCell(cell int, p traffic.CellPlan) error {
	if len(p.Workers) > maxWorkers {
		return fmt.Errorf("cell %d has %d workers (limit %d)", cell, len(p.Workers), maxWorkers)
	}
	c := &b.cells[cell]
	*c = cellSlot{workers: uint32(len(p.Workers)), warm: int64(p.Warm), length: int64(p.Length)}
	for i, w := range p.Workers {
		c.who[i] = uint32(w)
		c.threads += uint32(p.Threads[i])
	}
	return nil
}

// Run implements [traffic.Turns].
func (b *Board) Run(ctx context.Context, order []int, threads func(worker int) int) ([]traffic.Timing, error) {
	if len(order) == 0 {
		return nil, nil
	}
	if len(order) > len(b.trials) {
		return nil, fmt.Errorf("block of %d trials on a board for %d", len(order), len(b.trials))
	}
	first := b.h.first + b.h.count
	// From here on, tickets of earlier blocks are invalid: the slots of their trials are used again.
	atomic.StoreUint32(&b.h.first, first)
	atomic.StoreUint32(&b.h.count, uint32(len(order)))
	for i, cell := range order {
		b.trials[i] = trialSlot{cell: uint32(cell)}
	}
	atomic.StoreUint32(&b.h.abort, 0)
	atomic.StoreUint32(&b.h.failed, 0)
	before := atomic.LoadUint32(&b.h.finished)

	started := clock.Now()
	b.order.pass()
	b.call(first)
	err := b.watch(ctx, before)
	b.order.pass()
	if err != nil {
		atomic.StoreUint32(&b.h.abort, 1) // a thread that returns late must not wake others for the rest of this block
		b.release()
	}

	timings := make([]traffic.Timing, len(order))
	previous := started
	for i := range timings {
		t := &b.trials[i]
		c := &b.cells[t.cell]
		opened, ended := atomic.LoadInt64(&t.opened), atomic.LoadInt64(&t.ended)
		timings[i] = traffic.Timing{Cell: int(t.cell), Opened: opened, Done: ended != 0}
		if timings[i].Done {
			timings[i].Dead = time.Duration(opened - previous)
			timings[i].Drain = max(0, time.Duration(ended-opened-c.length)) // external programs may end before the close
			timings[i].Softirqd = time.Duration(atomic.LoadInt64(&t.softirq))
			timings[i].Probe = atomic.LoadInt64(&t.probed)
			previous = ended
			continue
		}
		if errors.Is(err, errStalled) {
			err = b.stalled(first+uint32(i), threads)
		}
	}
	return timings, err
}

var errStalled = errors.New("block stalled")

// watch waits for the end of the block.
func (b *Board) watch(ctx context.Context, before uint32) error {
	// The futex cannot be waited for together with a context, so an interruption sets abort and wakes the word.
	stop := context.AfterFunc(ctx, func() {
		atomic.StoreUint32(&b.h.abort, 1)
		futex.Wake(&b.h.finished, wakeAll)
	})
	defer stop()
	var patience int64 // when to abandon an interrupted block
	for {
		if atomic.LoadUint32(&b.h.finished) != before {
			if atomic.LoadUint32(&b.h.failed) != 0 {
				return errStalled
			}
			return ctx.Err()
		}
		wait := watchEvery
		switch now := clock.Now(); {
		case ctx.Err() == nil:
			if b.overdue(now) {
				return errStalled
			}
		case patience == 0:
			rest := b.rest(now) + traffic.DrainLimit + 50*time.Millisecond
			if rest > interruptLimit {
				return ctx.Err() // it would not end in time
			}
			patience = now + int64(rest)
			wait = rest
		case now >= patience:
			return ctx.Err()
		default:
			wait = time.Duration(patience - now)
		}
		if err := futex.Wait(&b.h.finished, before, wait); err != nil && !errors.Is(err, futex.ErrTimeout) {
			return fmt.Errorf("wait for the block's end: %w", err)
		}
	}
}

// current returns the trial that has the turn: the first one that has not ended.
func (b *Board) current() *trialSlot {
	for i := range b.trials[:b.h.count] {
		if t := &b.trials[i]; atomic.LoadInt64(&t.ended) == 0 {
			return t
		}
	}
	return nil
}

// release releases the threads that wait at a gate that will not open: they must not be there when the next block
// begins.
func (b *Board) release() {
	if t := b.current(); t != nil && atomic.CompareAndSwapUint32(&t.gate, gateClosed, gateShut) {
		futex.Wake(&t.gate, wakeAll)
	}
}

// overdue reports whether the running trial should have ended long ago.
func (b *Board) overdue(now int64) bool {
	t := b.current()
	if t == nil {
		return false
	}
	opened := atomic.LoadInt64(&t.opened)
	return opened != 0 && now > opened+b.cells[t.cell].length+int64(traffic.DrainLimit+stallLimit)
}

// rest returns how much longer the running trial goes on.
func (b *Board) rest(now int64) time.Duration {
	t := b.current()
	if t == nil {
		return 0
	}
	opened := atomic.LoadInt64(&t.opened)
	if opened == 0 {
		return time.Duration(b.cells[t.cell].length)
	}
	return time.Duration(max(0, opened+b.cells[t.cell].length-now))
}

func (b *Board) stalled(ticket uint32, threads func(worker int) int) *traffic.StalledError {
	t := &b.trials[ticket-b.h.first]
	c := &b.cells[t.cell]
	e := &traffic.StalledError{Cell: int(t.cell), Opened: atomic.LoadInt64(&t.opened) != 0}
	for _, w := range c.who[:c.workers] {
		for pair := range threads(int(w)) {
			s := b.seat(int(w), pair)
			done := atomic.LoadUint32(&s.arrived) == ticket
			if e.Opened {
				done = atomic.LoadUint32(&s.left) == ticket
			}
			if !done {
				e.Missing = append(e.Missing, traffic.Seat{Worker: int(w), Pair: pair})
			}
		}
	}
	return e
}

func (b *Board) seat(worker, pair int) *seatState { return &b.seats[worker*int(b.h.pairs)+pair] }

// call gives the turn to the workers of a trial.
func (b *Board) call(ticket uint32) {
	c := &b.cells[b.trials[ticket-b.h.first].cell]
	for _, w := range c.who[:c.workers] {
		atomic.StoreUint32(&b.workers[w].turn, ticket)
		futex.Wake(&b.workers[w].turn, wakeAll)
	}
}

// finish ends the block.
func (b *Board) finish() {
	atomic.AddUint32(&b.h.finished, 1)
	futex.Wake(&b.h.finished, wakeAll)
}

// Last implements [traffic.Turn].
func (b *Board) Last(worker int) uint32 { return atomic.LoadUint32(&b.workers[worker].turn) }

// Await implements [traffic.Turn].
func (b *Board) Await(worker int, last uint32) (uint32, error) {
	word := &b.workers[worker].turn
	for {
		if t := atomic.LoadUint32(word); t != last {
			b.order.pass()
			return t, nil
		}
		if err := futex.Wait(word, last, 0); err != nil {
			return 0, fmt.Errorf("wait for the turn: %w", err)
		}
	}
}

// Cell implements [traffic.Turn].
func (b *Board) Cell(ticket uint32) (int, bool) {
	t := b.trial(ticket)
	if t == nil {
		return 0, false
	}
	return int(t.cell), true
}

// trial returns the trial of a ticket; nil if the ticket does not belong to the running block. A thread that hung until
// after the end of its block returns with an old ticket.
func (b *Board) trial(ticket uint32) *trialSlot {
	i := ticket - atomic.LoadUint32(&b.h.first)
	if i >= atomic.LoadUint32(&b.h.count) {
		return nil
	}
	return &b.trials[i]
}

// Ordered implements [traffic.Turn]. Without the race detector it does nothing.
func (b *Board) Ordered() { b.order.pass() }

// Arrive implements [traffic.Turn].
func (b *Board) Arrive(ticket uint32, s traffic.Seat) (traffic.Window, error) {
	t := b.trial(ticket)
	if t == nil {
		return traffic.Window{}, traffic.ErrGate
	}
	c := &b.cells[t.cell]
	b.order.pass()
	atomic.StoreUint32(&b.seat(s.Worker, s.Pair).arrived, ticket)
	if atomic.AddUint32(&t.arrived, 1) == c.threads && atomic.LoadUint32(&b.h.failed) == 0 {
		if b.meters.Softirqd != nil {
			atomic.StoreInt64(&t.softirq, -b.meters.Softirqd())
		}
		if b.meters.Probe != nil {
			atomic.StoreInt64(&t.probed, -b.meters.Probe())
		}
		atomic.StoreInt64(&t.opened, clock.Now())
		atomic.CompareAndSwapUint32(&t.gate, gateClosed, gateOpen)
		futex.Wake(&t.gate, wakeAll)
	}
	for deadline := clock.Now() + int64(gateLimit); atomic.LoadUint32(&t.gate) == gateClosed; {
		timedOut := errors.Is(futex.WaitUntil(&t.gate, gateClosed, deadline), futex.ErrTimeout)
		if b.trial(ticket) == nil { // another block has begun
			return traffic.Window{}, traffic.ErrGate
		}
		if timedOut && atomic.LoadUint32(&t.gate) == gateClosed {
			if atomic.CompareAndSwapUint32(&b.h.failed, 0, ticket) {
				b.finish()
			}
			return traffic.Window{}, traffic.ErrGate
		}
	}
	if atomic.LoadUint32(&t.gate) == gateShut || b.trial(ticket) == nil {
		return traffic.Window{}, traffic.ErrGate
	}
	b.order.pass()
	opened := atomic.LoadInt64(&t.opened)
	return traffic.Window{Open: opened, Start: opened + c.warm, Close: opened + c.length}, nil
}

// Leave implements [traffic.Turn].
func (b *Board) Leave(ticket uint32, s traffic.Seat) {
	t := b.trial(ticket)
	if t == nil {
		return
	}
	c := &b.cells[t.cell]
	b.order.pass()
	atomic.StoreUint32(&b.seat(s.Worker, s.Pair).left, ticket)
	if atomic.AddUint32(&t.left, 1) != c.threads {
		return
	}
	if b.meters.Softirqd != nil {
		atomic.AddInt64(&t.softirq, b.meters.Softirqd())
	}
	if b.meters.Probe != nil {
		atomic.AddInt64(&t.probed, b.meters.Probe())
	}
	b.order.pass() // the next user of the meters comes after this
	atomic.StoreInt64(&t.ended, clock.Now())
	if next := ticket + 1; next < b.h.first+b.h.count && atomic.LoadUint32(&b.h.abort) == 0 {
		b.call(next)
		return
	}
	b.finish()
}
