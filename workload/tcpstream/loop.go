package tcpstream

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// The functions here are nosplit: without a stack check, there is no point at which the Go scheduler could take the
// thread.

// write drives a connection that is only written: messages until the close, then the last one. It reports whether that
// was sent.
//
//go:nosplit
func (e *endpoint) write(w traffic.Window) bool {
	f := &e.flows[0]
	for left := 0; !f.sent; left-- {
		if left <= 0 && f.at == 0 {
			f.ending = clock.Now() >= w.Close
			left = e.turn
		}
		switch errno := e.push(f, 0); errno {
		case 0:
			// the call has waited, and took a part: the rest may repeatedly take as long
			if f.at > 0 && clock.Now() > w.Close+limit {
				return false
			}
		case sock.Again, sock.Interrupted, sock.NoRoom:
			if clock.Now() > w.Close+limit {
				return false
			}
			if errno == sock.NoRoom && !e.reap(f) {
				e.poller.Watch(0, f.conn, false, false)
				e.poller.Wait(int64(patience))
			}
		default:
			e.lose(errno)
			return false
		}
	}
	return true
}

// reapEvery is how many sends with zero copy pass before the loop asks for their completions: a quarter of what fits
// into an error queue if the kernel merges none of them (net.core.optmem_max of 128 KiB, 512 bytes each).
const reapEvery = 64

// push sends, in one call, as much as possible of the message in progress.
//
//go:nosplit
func (e *endpoint) push(f *flow, flags int) sock.Errno {
	message := e.message
	if f.ending {
		message = e.final
	}
	n, errno := f.conn.Send(&message[f.at], len(message)-f.at, e.flags|flags)
	if errno != 0 {
		return errno
	}
	if f.at += n; f.at == len(message) {
		f.at = 0
		e.sample.Total++
		if f.ending {
			f.sent = true
			// otherwise the last bytes wait for an acknowledgement that the receiver delays by 40 ms (TCP_DELACK_MIN,
			// include/net/tcp.h)
			f.conn.Nagle(false)
		}
	}
	if e.reaper != nil {
		if f.sends++; f.sends%reapEvery == 0 {
			e.reap(f)
		}
	}
	return 0
}

// reap takes all available completions of a connection's sends with zero copy, and reports whether there were any.
//
//go:nosplit
func (e *endpoint) reap(f *flow) bool {
	if e.reaper == nil {
		return false
	}
	for some := false; ; some = true {
		sends, copied := e.reaper.Reap(f.conn)
		if sends == 0 {
			return some
		}
		e.copied += copied
		f.full = false
	}
}

// lose records why a connection cannot be used any more.
//
//go:nosplit
func (e *endpoint) lose(errno sock.Errno) {
	e.lost = errno
	e.lostAt = clock.Now()
}

// read drives a connection that is only read, until the last message has arrived completely. It reports whether it has.
//
//go:nosplit
func (e *endpoint) read(w traffic.Window) bool {
	f := &e.flows[0]
	stall := e.spec.Stall
	for {
		if stall.For > 0 {
			traffic.StandStill(w.Open, stall.Every, stall.For)
		}
		n, errno := f.conn.Recv(&e.buf[0], len(e.buf), 0)
		now := clock.Now()
		e.tick(now)
		switch {
		case errno == 0 && n > 0:
			if !e.take(f, n) {
				return false
			}
			if f.received {
				return true
			}
		case errno != sock.Again && errno != sock.Interrupted:
			e.closed = errno == 0
			e.lose(errno)
			return false
		}
		if now > w.Close+limit { // whether data arrives or not
			return false
		}
	}
}

// tick records what had been read by the end of each slice that is over.
//
//go:nosplit
func (e *endpoint) tick(now int64) {
	for now > e.due && e.next <= traffic.Slices {
		e.delivered[e.next] = e.sample.Bytes
		e.next++
		e.due += e.slice
	}
}

// take looks for the last message in n bytes that were read. It returns false if there is data after it, because the
// other side is then in another trial.
//
//go:nosplit
func (e *endpoint) take(f *flow, n int) bool {
	e.sample.Bytes += int64(n)
	at := f.head
	for at < n {
		if f.final {
			return false
		}
		f.final = e.buf[at] == last
		at += len(e.message)
	}
	f.head = at - n
	f.received = f.final && f.head == 0
	return true
}

// exchange drives several connections, or one in both directions: it waits until some are ready, and gives each of
// those its turn. It reports whether the last message of each was sent and has arrived.
//
//go:nosplit
func (e *endpoint) exchange(w traffic.Window) bool {
	var stall workload.Stall
	if e.reads {
		stall = e.spec.Stall
	}
	for {
		if stall.For > 0 {
			traffic.StandStill(w.Open, stall.Every, stall.For)
		}
		now := clock.Now()
		if !e.watch() {
			return true
		}
		if now > w.Close+limit {
			return false
		}
		e.poller.Wait(int64(patience))
		for i := range e.flows {
			f := &e.flows[i]
			read, write, told := e.poller.Ready(i)
			if told {
				e.reap(f)
			}
			if write && e.writes && !f.sent && !e.feed(f, now >= w.Close) {
				return false
			}
			if read && e.reads && !f.received && !e.drain(f) {
				return false
			}
		}
		if e.reads {
			e.tick(clock.Now())
		}
	}
}

// watch sets the events of the next wait; it returns false if there is nothing left to do.
//
//go:nosplit
func (e *endpoint) watch() bool {
	left := false
	for i := range e.flows {
		f := &e.flows[i]
		read, write := e.reads && !f.received, e.writes && !f.sent
		if !read && !write {
			e.poller.Watch(i, sock.Socket{FD: -1}, false, false)
			continue
		}
		left = true
		e.poller.Watch(i, f.conn, read, write && !f.full)
	}
	return left
}

// feed writes one turn to a connection; it returns false if the connection is lost.
//
//go:nosplit
func (e *endpoint) feed(f *flow, over bool) bool {
	for range e.turn {
		if f.at == 0 {
			f.ending = over
		}
		switch errno := e.push(f, sock.DontWait); errno {
		case 0:
			if f.sent {
				return true
			}
		case sock.Again, sock.Interrupted:
			return true
		case sock.NoRoom:
			f.full = !e.reap(f)
			return true
		default:
			e.lose(errno)
			return false
		}
	}
	return true
}

// drain reads once from a connection; it returns false if the connection is lost.
//
//go:nosplit
func (e *endpoint) drain(f *flow) bool {
	n, errno := f.conn.Recv(&e.buf[0], len(e.buf), sock.DontWait)
	switch {
	case errno == 0 && n > 0:
		e.tick(clock.Now())
		return e.take(f, n)
	case errno == sock.Again || errno == sock.Interrupted:
		return true
	}
	e.closed = errno == 0
	e.lose(errno)
	return false
}
