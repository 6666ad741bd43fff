package workload

import (
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
)

// A Carrier is a workload that knows, for its trials, the least number of packets that the network must have carried,
// so that their path can be checked.
type Carrier interface {
	// Carried returns the packets of pair i that arrived at the sink, and those that arrived at the source. A large
	// segment, which may be cut on its way, counts as one packet; unknown numbers are 0. It is called after
	// [Trial.Settled]. The samples are those of nettoll's own engine or of a driver, with the same meaning.
	Carried(t Trial, i int) (there, back int64)
}

// LargestSegment is the largest payload of one packet between kernel links, in bytes: GSO_LEGACY_MAX_SIZE,
// include/linux/netdevice.h, which nettoll does not raise.
const LargestSegment = 1 << 16

// Segments returns the least number of packets for this many bytes of a stream.
func Segments(bytes int64) int64 { return atLeast(bytes, LargestSegment) }

// atLeast returns the number of packets for n if each holds at most this many.
func atLeast(n, most int64) int64 { return (n + most - 1) / most }

// Exchanged describes the sizes of requests and responses on connections, and how many fit into a packet.
type Exchanged struct {
	Together          int // largest number in flight on a connection: a packet holds no more of either
	Request, Response int // least size of each in bytes; 0: unknown
	Renew             bool
}

// Exchanging returns what the parameters payload, response and sizes say about requests and responses, with this many
// in flight on a connection.
func Exchanging(p part.Params, together int) Exchanged {
	e := Exchanged{Together: together}
	if !Varied(p) {
		e.Request = p.Size("payload")
	}
	if e.Response = e.Request; p["response"] != "same" {
		e.Response = p.Size("response")
	}
	return e
}

// CarriedExchange returns the least number of packets for the transactions of pair i on streams. If each transaction
// makes a connection, that adds a packet in each direction.
func (t Trial) CarriedExchange(i int, e Exchanged) (there, back int64) {
	n := t.Sources[i].Received
	if n <= 0 {
		return 0, 0
	}
	if e.Renew {
		there, back = n, n
	}
	packets := atLeast(n, int64(max(1, e.Together)))
	return there + max(packets, Segments(n*int64(e.Request))), back + max(packets, Segments(n*int64(e.Response)))
}

// CarriedMessages returns the least number of packets for the messages of pair i (traffic/flows). A datagram is one
// packet, and so are 64 KiB of a stream, but no packet belongs to two streams.
func (t Trial) CarriedMessages(i int) (there, back int64) {
	_, stream := t.Params["congestion"]
	of := func(s traffic.Sample) int64 {
		if !stream {
			return s.Received
		}
		return max(s.Counts[flows.CountFlows], Segments(s.Bytes))
	}
	return of(t.Sinks[i]), of(t.Sources[i])
}
