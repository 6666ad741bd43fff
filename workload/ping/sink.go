package ping

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// notHere is the message of a sink whose container received no echo request since the last check.
const notHere = "no echo request arrived in the sink's container: its address may belong to another machine"

// sink waits: its kernel answers, and counts the requests.
type sink struct {
	sock   sock.Socket // only for its options; nothing is sent or received
	echoes *sock.Echoes
	count  int64 // requests of the container at the last check
	sample traffic.Sample
}

func openSink(s workload.Spec) (traffic.Endpoint, error) {
	sk, err := sock.UDP(s.Local, s.Remote)
	if err != nil {
		return nil, err
	}
	k := &sink{sock: sk}
	if k.echoes, err = sock.NewEchoes(s.Local.Addr().Is6()); err == nil {
		k.count, err = k.echoes.Count()
	}
	if err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(uint64) { s.sample = traffic.Sample{} }

// Run sleeps until the window has closed.
func (s *sink) Run(_ uint64, w traffic.Window) {
	for now := clock.Now(); now < w.Close; now = clock.Now() {
		s.sock.WaitRecv(w.Close - now)
	}
}

// Collect implements [traffic.Collector]. If addresses are translated by port, echo requests do not reach the
// container, and the host answers: such a trial is not valid.
func (s *sink) Collect() {
	count, err := s.echoes.Count()
	switch {
	case s.sample.Failure != "":
	case err != nil:
		s.sample.Failure = err.Error()
	case count == s.count:
		s.sample.Failure = notHere
	}
	s.count = count
}

// Sample implements [traffic.Endpoint].
func (s *sink) Sample() *traffic.Sample { return &s.sample }

// Recorders implements [traffic.Endpoint].
func (*sink) Recorders() traffic.Recorders { return traffic.Recorders{} }

// Facts implements [traffic.Endpoint].
func (s *sink) Facts() (sock.Facts, error) { return s.sock.Facts() }

// Close implements [traffic.Endpoint].
func (s *sink) Close() {
	s.sock.Close()
	if s.echoes != nil {
		s.echoes.Close()
	}
}
