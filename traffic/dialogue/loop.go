package dialogue

import (
	"errors"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// drive sends requests until the close, or until there are no more, and waits for the answers. It reports whether all
// arrived. It is called once for each trial. The functions that it calls are nosplit: without a stack check, there is
// no point at which the Go scheduler could take the thread. The only call that blocks is the one that waits for all
// connections.
func (c *Client) drive(w traffic.Window) bool {
	c.start = w.Start
	if c.schedule == nil {
		for i := range c.lanes {
			if !c.refill(i, clock.Now(), w) {
				return false
			}
		}
	}
	for {
		now := clock.Now()
		next := w.Close
		switch {
		case now >= w.Close || c.number >= c.stop:
			if c.waiting == 0 {
				return true
			}
			if next = c.deadline; now > next {
				return false
			}
		case c.schedule != nil:
			var ok bool
			if next, ok = c.keepUp(now, w); !ok {
				return false
			}
		}
		for k := range c.watcher.Wait(nap(now, next, w)) {
			i, read, write := c.watcher.Event(k)
			p := &c.conns[i]
			switch {
			case p.state == connecting:
				if write && !c.dialed(i, p.ConnectTo(&c.remote)) {
					return false
				}
				continue
			case write && p.full && !c.push(i):
				return false
			case !read || p.state == shut:
				continue
			}
			if !c.take(i, w) {
				return false
			}
			if c.schedule != nil {
				c.offer(i)
			} else if i < c.lanes && !c.refill(i, c.now, w) {
				return false
			}
		}
	}
}

// nap returns how long the thread may sleep if nothing arrives: until shortly before the next request is due.
//
//go:nosplit
func nap(now, next int64, w traffic.Window) int64 {
	switch {
	case next >= w.Close:
		return min(max(next-now, 0), patience)
	case next-now > 2*early:
		return min(next-now-early, patience)
	}
	return 0
}

// keepUp sends the requests that are due on connections with room, and returns when the next one is due.
//
//go:nosplit
func (c *Client) keepUp(now int64, w traffic.Window) (next int64, ok bool) {
	for {
		due := w.Open + c.schedule.Due(c.number)
		if due > now || due >= w.Close {
			return min(due, w.Close), true
		}
		for w.Open+c.schedule.Due(c.ahead) <= now {
			c.ahead++
		}
		c.backlog = max(c.backlog, int64(c.ahead-c.number)-1)
		if c.idle.have == 0 {
			return w.Close, true // until a connection has room
		}
		i := c.idle.pop()
		c.conns[i].queued = false
		if !c.ask(i, due, clock.Now(), w) {
			return 0, false
		}
		c.offer(i)
	}
}

// offer makes a connection with room available for a request.
//
//go:nosplit
func (c *Client) offer(i int) {
	p := &c.conns[i]
	if p.queued || p.next-p.first >= c.depth || c.renew && p.state != shut {
		return
	}
	p.queued = true
	c.idle.push(i)
}

// refill adds requests to a connection up to the wanted number in flight, until the close.
//
//go:nosplit
func (c *Client) refill(i int, now int64, w traffic.Window) bool {
	p := &c.conns[i]
	if now >= w.Close || c.number >= c.stop || p.next-p.first >= c.depth || c.renew && p.state != shut {
		return true
	}
	for p.next-p.first < c.depth-1 && c.number+1 < c.stop { // all except the last one, which is sent with them
		c.add(p, now, now, w)
	}
	return c.ask(i, now, now, w)
}

// add assigns the next request to a connection with room.
//
//go:nosplit
func (c *Client) add(p *connection, due, sent int64, w traffic.Window) {
	r := &p.asked[p.next&uint64(len(p.asked)-1)]
	r.number, r.due, r.sent = c.number, due, sent
	p.next++
	c.number++
	c.waiting++
	c.sample.Total++
	if c.schedule != nil && due >= w.Start {
		c.sample.Sent++
	}
}

// ask adds a request, and sends what its connection has to send.
//
//go:nosplit
func (c *Client) ask(i int, due, sent int64, w traffic.Window) bool {
	p := &c.conns[i]
	c.add(p, due, sent, w)
	if c.renew {
		return c.dial(i, sent)
	}
	if p.full {
		return true
	}
	return c.push(i)
}

// push sends the unsent requests of a connection, as far as the socket takes them: short ones together in one call.
//
//go:nosplit
func (c *Client) push(i int) bool {
	p := &c.conns[i]
	mask := uint64(len(p.asked) - 1)
	for p.sending < p.next {
		r := &p.asked[p.sending&mask]
		data := c.asks.Request(r.number)
		r.size = len(data)
		data = data[p.at:]
		end := p.sending + 1
		if end < p.next && len(data) < len(c.out) {
			n := copy(c.out, data)
			for ; end < p.next; end++ {
				more := c.asks.Request(p.asked[end&mask].number)
				if n+len(more) > len(c.out) {
					break
				}
				p.asked[end&mask].size = len(more)
				n += copy(c.out[n:], more)
			}
			data = c.out[:n]
		}
		n, errno := p.Send(&data[0], len(data), sock.DontWait|sock.NoSignal)
		switch errno {
		case 0:
			for p.at += n; p.sending < end && p.at >= p.asked[p.sending&mask].size; p.sending++ {
				p.at -= p.asked[p.sending&mask].size
			}
		case sock.Again:
			if !p.full {
				p.full = true
				c.watcher.Output(i, p.Socket, true)
			}
			return true
		case sock.Interrupted:
		default:
			return c.fail(broke, errno)
		}
	}
	if p.full {
		p.full = false
		c.watcher.Output(i, p.Socket, false)
	}
	return true
}

// dial starts the connection of a request. On one machine it is often established at once, which the second call
// reports.
func (c *Client) dial(i int, now int64) bool {
	p := &c.conns[i]
	var errno sock.Errno
	if p.Socket, errno = c.maker.Make(0); errno != 0 {
		return c.fail(noSocket, errno)
	}
	p.state, p.begun = connecting, now
	if errno = p.ConnectTo(&c.remote); errno == sock.Connecting {
		errno = p.ConnectTo(&c.remote)
	}
	p.full = errno != 0
	if err := c.watcher.Add(i, p.Socket, p.full); err != nil {
		return c.fail(noSocket, reason(err))
	}
	return c.dialed(i, errno)
}

// reason returns the kernel's error number.
func reason(err error) sock.Errno {
	var errno sock.Errno
	errors.As(err, &errno)
	return errno
}

// dialed continues after an attempt to connect has ended.
//
//go:nosplit
func (c *Client) dialed(i int, errno sock.Errno) bool {
	p := &c.conns[i]
	switch errno {
	case 0, sock.Connected:
	case sock.Connecting, sock.StillConnecting, sock.Interrupted:
		return true
	case sock.AddressUnavailable, sock.AddressInUse:
		return c.fail(noPort, errno)
	default:
		return c.fail(noConnection, errno)
	}
	if p.asked[p.first&uint64(len(p.asked)-1)].due >= c.start {
		c.recorders[traffic.Connect].Record(clock.Now() - p.begun)
	}
	p.state = open
	return c.push(i)
}

// fail records the first error, and returns false.
//
//go:nosplit
func (c *Client) fail(what mishap, errno sock.Errno) bool {
	if c.trouble.what == none {
		c.trouble.what, c.trouble.errno = what, errno
	}
	return false
}

// take receives data from one connection. A read that does not fill the buffer was the last.
//
//go:nosplit
func (c *Client) take(i int, w traffic.Window) bool {
	p := &c.conns[i]
	for {
		room := len(c.in) - p.kept
		n, errno := p.Recv(&c.in[p.kept], room, sock.DontWait)
		if errno == sock.Again || errno == sock.Interrupted {
			return true
		}
		if errno != 0 || n == 0 {
			return c.over(i, errno)
		}
		now := clock.Now()
		if p.kept > 0 {
			copy(c.in, p.head[:p.kept])
		}
		n += p.kept
		p.kept = 0
		if !c.read(p, n, now, w) {
			return false
		}
		c.now = now
		if c.renew && p.next == p.first && p.state == open {
			p.state = parting
		}
		if n < len(c.in) {
			return true
		}
		if now > c.deadline { // the data has no end
			return false
		}
	}
}

// read parses n bytes from a connection.
//
//go:nosplit
func (c *Client) read(p *connection, n int, now int64, w traffic.Window) bool {
	for at := 0; at < n; {
		if p.first == p.next {
			return c.fail(strange, 0)
		}
		r := &p.asked[p.first&uint64(len(p.asked)-1)]
		if p.left == 0 {
			size, verdict := c.asks.Answer(r.number, c.in[at:n])
			switch {
			case verdict == Partial && n-at < c.asks.Head:
				p.kept = copy(p.head, c.in[at:n])
				return true
			case verdict == Partial:
				return c.fail(long, 0)
			case verdict == Alien || size <= 0:
				c.note(r.number, at, n)
				return c.fail(alien, 0)
			case verdict == Bad:
				if c.bad == 0 {
					c.note(r.number, at, n)
				}
				c.bad++
			}
			p.left, p.verdict = size, verdict
		}
		part := min(n-at, p.left)
		at += part
		if p.left -= part; p.left > 0 {
			return true
		}
		if p.first == p.sending {
			return c.fail(hasty, 0)
		}
		p.first++
		if !c.renew || c.asks == &c.farewell {
			c.waiting--
		}
		if c.schedule == nil && now >= w.Start && now < w.Close {
			c.sample.Sent++
		} else if c.schedule == nil || r.due < w.Start {
			continue
		}
		if p.verdict == Bad {
			c.sample.Errors++
			continue
		}
		c.sample.Received++
		c.recorders[traffic.Latency].Record(now - r.due)
		if c.schedule != nil {
			c.recorders[traffic.Service].Record(now - r.sent)
			c.recorders[traffic.Departure].Record(r.sent - r.due)
		}
	}
	return true
}

// note keeps the start of an answer, to explain it later.
//
//go:nosplit
func (c *Client) note(number uint64, at, n int) {
	c.trouble.number = number
	c.trouble.size = copy(c.trouble.head, c.in[at:n])
}

// over handles the end of a connection. That is expected if each request has its own connection and was answered: the
// next request may follow.
//
//go:nosplit
func (c *Client) over(i int, errno sock.Errno) bool {
	p := &c.conns[i]
	if p.state != parting {
		c.trouble.inside = p.left > 0 || p.kept > 0
		if errno != 0 {
			return c.fail(broke, errno)
		}
		return c.fail(closed, 0)
	}
	p.Drop()
	p.FD, p.state = -1, shut
	c.waiting--
	c.now = clock.Now()
	return true
}
