package attack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
)

// patience is how long somebody waits for a connection: longer than a question for a neighbour takes.
const patience = 400 * time.Millisecond

// services connects to a service of each host that is bound to all of its addresses, by sockets, and counts what the
// service accepts.
func (s *stand) services(o *Outcome, v6 bool) error {
	network := "tcp4"
	if v6 {
		network = "tcp6"
	}
	door := &door{came: map[uint32]bool{}}
	defer door.close()
	var dials sync.WaitGroup
	var list []try
	for _, m := range s.machines {
		l, err := door.open(m, network, s.magic[:])
		if err != nil {
			return fmt.Errorf("open a service of %s: %w", m.name, err)
		}
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		for _, a := range m.of(v6) {
			if a.IsLinkLocalUnicast() {
				continue
			}
			for _, from := range s.ends {
				s.number++
				to, key := netip.AddrPortFrom(a, port), s.key(s.number, 0)
				list = append(list, try{
					what: fmt.Sprintf("a connection to a service of %s at %s", m.name, a), from: from, number: s.number,
				})
				dials.Go(func() {
					// nobody gets there: that is what is asked
					_ = from.Within(from.ns, func() error { return knock(network, to, key) })
				})
			}
		}
	}
	dials.Wait()
	time.Sleep(settle)
	for _, t := range list {
		o.Sent++
		if door.has(t.number) {
			o.Arrived++
			o.hole(fmt.Sprintf("%s, from %s, is accepted", t.what, t.from.Name))
		}
	}
	return nil
}

// knock opens a connection and says something.
func knock(network string, to netip.AddrPort, key string) error {
	d := net.Dialer{Timeout: patience}
	c, err := d.Dial(network, to.String())
	if err != nil {
		return err
	}
	_, err = io.WriteString(c, key)
	return errors.Join(err, c.Close())
}

// A door takes connections, and notes the number of each.
type door struct {
	mu    sync.Mutex
	came  map[uint32]bool
	lists []net.Listener
	group sync.WaitGroup
}

// open has a host listen at all of its addresses.
func (d *door) open(m *machine, network string, magic []byte) (l net.Listener, err error) {
	err = netns.Do(int(m.ns.Fd()), func() (err error) {
		for port := nobodys + 1; port < 1<<16; port++ { // a host may publish those below for containers
			if l, err = net.Listen(network, fmt.Sprintf(":%d", port)); !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d.lists = append(d.lists, l)
	d.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.group.Go(func() { d.hear(c, magic) })
		}
	})
	return l, nil
}

func (d *door) hear(c net.Conn, magic []byte) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	b := make([]byte, len(magic)+6)
	if _, err := io.ReadFull(c, b); err != nil || !slices.Equal(b[:len(magic)], magic) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.came[binary.BigEndian.Uint32(b[len(magic):])] = true
}

func (d *door) has(number uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.came[number]
}

func (d *door) close() {
	for _, l := range d.lists {
		_ = l.Close()
	}
	d.group.Wait()
}

// abstract connects to an abstract unix socket of each host from all containers: such sockets belong to a network
// namespace, and have neither files nor rights (unix(7)). The host itself has to get there.
func (s *stand) abstract(o *Outcome, _ bool) error {
	name := fmt.Sprintf("@nettoll-%x", s.magic)
	for _, m := range s.machines {
		door := &door{came: map[uint32]bool{}}
		var l net.Listener
		err := netns.Do(int(m.ns.Fd()), func() (err error) {
			l, err = net.Listen("unix", name)
			return err
		})
		if err != nil {
			return fmt.Errorf("open an abstract socket of %s: %w", m.name, err)
		}
		door.lists = append(door.lists, l)
		dial := func() error {
			c, err := net.DialTimeout("unix", name, patience)
			if err != nil {
				return err
			}
			return c.Close()
		}
		if netns.Do(int(m.ns.Fd()), dial) != nil {
			o.Missing = append(o.Missing, "a connection of "+m.name+" to its own abstract socket")
		}
		for _, e := range s.ends {
			o.Sent++
			if e.Within(e.ns, dial) == nil {
				o.Arrived++
				o.hole(fmt.Sprintf("%s reaches an abstract socket of %s", e.Name, m.name))
			}
		}
		door.close()
	}
	return nil
}
