package dns

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// open opens a datagram socket.
func (s side) open(local, remote netip.AddrPort) (sock.Socket, error) {
	sk, err := sock.UDP(local, remote)
	if err != nil {
		return sk, err
	}
	o := s.SocketOptions()
	o.Congestion = ""
	if err := errors.Join(sk.Set(o), sk.SetTimeout(traffic.Patience)); err != nil {
		sk.Close()
		return sk, err
	}
	return sk, nil
}

// source sends queries in datagrams.
type source struct {
	traffic.Exchange
	asker *asker
}

func (s side) source() (traffic.Endpoint, error) {
	clients := s.Params.Count("clients")
	if clients > s.LocalPorts {
		return nil, fmt.Errorf("open dns: %d clients, but only %d ports from %s on (hint: use transport=tcp, for which the "+
			"kernel chooses ports)", clients, s.LocalPorts, s.Local)
	}
	a, err := s.newAsker()
	if err != nil {
		return nil, err
	}
	schedule, err := s.schedule(a.size)
	if err != nil {
		return nil, err
	}
	e := &source{asker: a, Exchange: traffic.Exchange{
		Codec: a, Out: traffic.Buffer(max(a.size, markerSize)), In: traffic.Buffer(ednsLimit),
		InFlight: outstanding(s.Params), Schedule: schedule,
	}}
	for i := range clients {
		sk, err := s.open(netip.AddrPortFrom(s.Local.Addr(), s.Local.Port()+uint16(i)), s.Remote)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.Flows = append(e.Flows, sk)
	}
	if err := e.Init(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(trial uint64) {
	s.asker.begin(trial)
	s.Exchange.Prepare(trial)
}

// Run implements [traffic.Endpoint].
func (s *source) Run(_ uint64, w traffic.Window) { s.Exchange.Run(w) }

// Sample implements [traffic.Endpoint].
func (s *source) Sample() *traffic.Sample { return &s.Exchange.Sample }

// Recorders implements [traffic.Endpoint].
func (s *source) Recorders() traffic.Recorders { return s.Exchange.Recorders }

// Facts implements [traffic.Endpoint].
func (s *source) Facts() (sock.Facts, error) { return s.Flows[0].Facts() }

// looksPerClock is how many queries a sink answers before it reads the clock, because a client may never stop.
const looksPerClock = 64

// sink answers datagrams from any sender.
type sink struct {
	sock    sock.Socket
	zone    *zone
	in, out []byte
	from    sock.Address
	marker  [markerSize]byte
	foreign bool // queries are from a program that sends no marker
	sample  traffic.Sample
	planted int64 // [traffic.CountPlanted]
	stall   workload.Stall
	plant   traffic.Delay
}

func (s side) sink() (traffic.Endpoint, error) {
	sk, err := s.open(s.Local, netip.AddrPort{})
	if err != nil {
		return nil, err
	}
	return &sink{
		sock: sk, zone: s.zone(), in: traffic.Buffer(ednsLimit), out: traffic.Buffer(messageMax), foreign: s.Driver != "",
		stall: s.Stall, plant: traffic.NewDelay(s.Plant),
	}, nil
}

// Sample implements [traffic.Endpoint].
func (s *sink) Sample() *traffic.Sample { return &s.sample }

// Recorders implements [traffic.Endpoint].
func (*sink) Recorders() traffic.Recorders { return traffic.Recorders{} }

// Facts implements [traffic.Endpoint].
func (s *sink) Facts() (sock.Facts, error) { return s.sock.Facts() }

// Close implements [traffic.Endpoint].
func (s *sink) Close() { s.sock.Close() }

// Collect implements [traffic.Collector].
func (s *sink) Collect() { s.sample.Count(traffic.CountPlanted, s.planted) }

// Prepare discards what an earlier trial left in the socket.
func (s *sink) Prepare(trial uint64) {
	putMarker(&s.marker, trial)
	s.sample, s.planted = traffic.Sample{Late: s.sock.Drain()}, 0
}

// Run answers until the end marker has arrived, or cannot arrive any more.
func (s *sink) Run(_ uint64, w traffic.Window) {
	const limit = int64(traffic.DrainLimit)
	for looks := 1; ; looks++ {
		n, errno := s.sock.RecvFrom(&s.in[0], len(s.in), 0, &s.from)
		if (errno != 0 || looks%looksPerClock == 0) && clock.Now() > w.Close+limit {
			break
		}
		if errno != 0 {
			continue
		}
		if s.stall.Every > 0 {
			traffic.StandStill(w.Open, s.stall.Every, s.stall.For)
		}
		s.planted += s.plant.Spin()
		over := marks(s.in[:n], &s.marker)
		n = s.zone.answer(s.out, s.in[:n], false)
		if n == 0 {
			s.sample.Late++
			continue
		}
		s.sock.SendTo(&s.out[0], n, 0, &s.from) // an answer that cannot be sent is lost, and the source counts it
		if over {
			return
		}
		s.sample.Total++
	}
	if !s.foreign {
		s.sample.Doubt = traffic.MarkerLost
	}
}
