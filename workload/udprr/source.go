package udprr

import (
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// usedUp is the message of a source that has begun more new flows than it has ports.
const usedUp = "all ports have been used: the first packet belongs to a known flow and is left out: rebuild more " +
	"often (--generations)"

// source sends requests.
type source struct {
	traffic.Exchange
	trials int
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(trial uint64) {
	s.Exchange.Prepare(trial)
	s.trials++
}

// Run implements [traffic.Endpoint].
func (s *source) Run(_ uint64, w traffic.Window) {
	s.Exchange.Run(w)
	if s.Fresh && s.trials > len(s.Flows) {
		s.ForgetFirst()
		if s.Exchange.Sample.Doubt == "" {
			s.Exchange.Sample.Doubt = usedUp
		}
	}
}

// Sample implements [traffic.Endpoint].
func (s *source) Sample() *traffic.Sample { return &s.Exchange.Sample }

// Recorders implements [traffic.Endpoint].
func (s *source) Recorders() traffic.Recorders { return s.Exchange.Recorders }

// Facts implements [traffic.Endpoint].
func (s *source) Facts() (sock.Facts, error) { return s.Flows[0].Facts() }
