package remote

import (
	"context"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/traffic"
)

// exchange is a call that was answered. Its times are of the controller's clock, in ns.
type exchange[R any] struct {
	sent, got int64
	result    R
}

// calls are calls of one method to several workers at the same time.
type calls[R any] struct {
	workers []*worker
	results chan result[R]
	cancel  context.CancelFunc // ends those that are not answered
}

type result[R any] struct {
	i   int
	err error
	exchange[R]
}

// ask calls a method of workers, with parameters by their index. The calls outlive ctx: an interruption must not send
// anything into a trial that is finished all the same.
func ask[R any](ctx context.Context, workers []*worker, method string, params func(i int) any) calls[R] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := calls[R]{workers, make(chan result[R], len(workers)), cancel}
	for i, w := range workers {
		go func() {
			r := result[R]{i: i}
			r.sent = clock.Now()
			r.err = w.call(ctx, method, params(i), &r.result)
			r.got = clock.Now()
			c.results <- r
		}()
	}
	return c
}

// wait passes the answers on until all are there, and returns the indices of workers that did not answer within the
// limit. It ends at once if a worker cannot answer, which is a [traffic.LostError], or if ctx ends.
func (c calls[R]) wait(ctx context.Context, limit time.Duration, got func(i int, x exchange[R])) (silent []int,
	err error,
) {
	answered := make([]bool, len(c.workers))
	over := time.NewTimer(limit)
	defer over.Stop()
	for range c.workers {
		select {
		case r := <-c.results:
			if r.err != nil {
				return nil, &traffic.LostError{Worker: c.workers[r.i].number, Err: r.err}
			}
			answered[r.i] = true
			got(r.i, r.exchange)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			for i, done := range answered {
				if !done {
					silent = append(silent, i)
				}
			}
			return silent, nil
		}
	}
	return nil, nil
}

// all is like wait, but also waits for the answers of others if a worker cannot answer, and returns the first such
// error.
func (c calls[R]) all(limit time.Duration, got func(i int, x exchange[R])) (lost error) {
	over := time.NewTimer(limit)
	defer over.Stop()
	for range c.workers {
		select {
		case r := <-c.results:
			switch {
			case r.err == nil:
				got(r.i, r.exchange)
			case lost == nil:
				lost = &traffic.LostError{Worker: c.workers[r.i].number, Err: r.err}
			}
		case <-over.C:
			return lost
		}
	}
	return lost
}

// learn updates what is known of the worker after an exchange; its message was meant to be sent at some time, in ns. If
// the worker's clock is not what it was, as after its machine was suspended, its last trial is refused.
func (w *worker) learn(meant, sent int64, at times, got int64) {
	if !w.clock.exchange(sent, at, got) {
		w.passages = nil
		if w.last != nil {
			refuse(w.last, "the clock of worker %d changed", w.number)
		}
	}
	p := passage{there: at.Received - meant, trip: got - sent - (at.Answered - at.Received)}
	w.passages = append([]passage{p}, w.passages[:min(len(w.passages), recent-1)]...)
}
