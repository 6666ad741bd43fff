package traffic

import (
	"fmt"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet/witness"
)

// failed is the number of the request for which a numbered exchange has an error.
const failed = 3

// numbered is a codec with its own messages: a header for the server of these tests. They could be anything.
type numbered struct{}

func (numbered) Put(out []byte, seq uint64) int {
	PutHeader((*[HeaderSize]byte)(out), 0, seq, 0)
	return HeaderSize + 1
}

func (numbered) Read(in []byte) (seq uint64, answers, right bool) {
	_, seq, _ = Header((*[HeaderSize]byte)(in))
	return seq, len(in) == HeaderSize, seq != failed
}

// A codec's own messages are sent and understood. An answer that reports a failure counts neither as received nor as
// lost.
func TestExchangeCodec(t *testing.T) {
	for name, kind := range map[string]func() Exchange{
		"one in flight":  func() Exchange { return Exchange{} },
		"four in flight": func() Exchange { return Exchange{InFlight: 4} },
	} {
		once := func(t *testing.T) *Exchange {
			e := new(Exchange)
			*e = kind()
			peer := exchange(t, e)
			e.Codec = numbered{}
			run, stop := serve(t, peer, func(seq uint64, send func(trial, seq uint64)) bool {
				send(0, seq)
				return seq != Marker
			})
			open := clock.Now()
			run(func() { e.Run(Window{Open: open, Start: open, Close: open + 30e6}) })
			stop()
			return e
		}
		t.Run(name, func(t *testing.T) {
			witness.Until(t, witness.Limit{Lost: DrainLimit / 2}, func() error {
				s := once(t).Sample
				if s.Doubt != "" || s.Total <= failed || s.Received != s.Total-1 || s.Errors != 1 || s.Late != 0 {
					return fmt.Errorf("one of all requests failed: %+v", s)
				}
				return nil
			})
		})
	}
}
