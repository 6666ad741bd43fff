package byhand

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

const (
	// mostStrangers is the largest number of unidentified connections that a sink keeps. One more ends an old one.
	mostStrangers = 256
	// mostWaiting is the largest number of waiting sources, and mostAlike the largest number of those of one network.
	mostWaiting, mostAlike = 64, 4
)

// strangers are unidentified connections. Opening many of them does not keep others out: a new connection replaces the
// oldest one of the network with the most connections.
type strangers struct {
	mu   sync.Mutex
	list []stranger
}

type stranger struct {
	conn net.Conn
	from netip.Prefix
}

// homeBits is the length of an IPv6 prefix that counts as one network: whoever has one address in a subnet of 64 bits
// (RFC 4291, section 2.5.1) can take any other. That also holds for link-local addresses.
const homeBits = 64

// network returns the network of an address; for IPv4 it is the address itself.
func network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = homeBits
	}
	p, _ := a.WithZone("").Prefix(bits) // fails only for more bits than the address has
	return p
}

// enter adds a connection. It returns true if another one was ended to make room.
func (s *strangers) enter(conn net.Conn, from netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.list) >= mostStrangers
	if full {
		s.evict()
	}
	s.list = append(s.list, stranger{conn, network(from)})
	return full
}

// makeRoom ends one connection, if there is any.
func (s *strangers) makeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return false
	}
	s.evict()
	return true
}

// evict ends the oldest connection of the network with the most.
func (s *strangers) evict() {
	count := map[netip.Prefix]int{}
	for _, one := range s.list {
		count[one.from]++
	}
	oldest := 0
	for i, one := range s.list {
		if count[one.from] > count[s.list[oldest].from] {
			oldest = i
		}
	}
	_ = s.list[oldest].conn.Close()
	s.remove(oldest)
}

// leave forgets a connection, if it is still there.
func (s *strangers) leave(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range s.list {
		if one.conn == conn {
			s.remove(i)
			return
		}
	}
}

func (s *strangers) remove(i int) { s.list = slices.Delete(s.list, i, i+1) }

// queue holds the sources that are served, and those that wait, in the order of arrival.
type queue struct {
	mu         sync.Mutex
	perAddress int      // how many of one network are served at once
	seats      []*guest // the sources that are served; nil: the seat is free
	waiting    []*guest
}

// guest is a source that is served or that waits.
type guest struct {
	from  netip.Prefix  // its network
	moved chan struct{} // receives a value when its place has changed
}

// enter adds a source, unless the largest number of sources is already waiting.
func (q *queue) enter(a netip.Addr) (*guest, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from := network(a)
	switch {
	case alike(q.waiting, from) >= mostAlike && from.IsSingleIP():
		return nil, fmt.Errorf("%d sources of %s %w", mostAlike, from.Addr(), errQueueFull)
	case alike(q.waiting, from) >= mostAlike:
		return nil, fmt.Errorf("%d sources of %s %w", mostAlike, from, errQueueFull)
	case len(q.waiting) >= mostWaiting:
		return nil, fmt.Errorf("%d sources %w", mostWaiting, errQueueFull)
	}
	g := &guest{from: from, moved: make(chan struct{}, 1)}
	q.waiting = append(q.waiting, g)
	q.promote()
	return g, nil
}

// alike returns how many of a list are of a network.
func alike(list []*guest, from netip.Prefix) int {
	n := 0
	for _, g := range list {
		if g != nil && g.from == from {
			n++
		}
	}
	return n
}

// leave frees the seat or the place of a source.
func (q *queue) leave(g *guest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, one := range q.seats {
		if one == g {
			q.seats[i] = nil
		}
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(one *guest) bool { return one == g })
	q.promote()
}

// promote gives free seats to sources that wait, unless others of their network already have the largest number. It
// notifies all of them to look at their places.
func (q *queue) promote() {
	for i, one := range q.seats {
		if one != nil {
			continue
		}
		for k, g := range q.waiting {
			if alike(q.seats, g.from) < q.perAddress {
				q.seats[i] = g
				q.waiting = slices.Delete(q.waiting, k, k+1)
				g.tell()
				break
			}
		}
	}
	for _, g := range q.waiting {
		g.tell()
	}
}

// tell notifies a guest to look at its place.
func (g *guest) tell() {
	select {
	case g.moved <- struct{}{}:
	default: // it has not looked since the last notification
	}
}

// place returns the number of sources before a waiting guest; if the guest is served, before is 0 and seat is its seat.
func (q *queue) place(g *guest) (before, seat int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.seats, g); i >= 0 {
		return 0, i
	}
	return len(q.seats) + slices.Index(q.waiting, g), 0
}

// crowded reports whether somebody waits.
func (q *queue) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0
}
