package workload

import (
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
)

// A Carrier is a workload that knows of its trials how many packets must have gone over the network at least, so that
// they can be looked for on their way.
type Carrier interface {
	// Carried returns the packets of pair i that arrived at the sink, and those that arrived at the source. It counts a
	// large segment, which may be cut on its way, as one packet, and says 0 of what it does not know. It is asked after
	// [Trial.Settled]. The samples are those of nettoll's own engine or of a driver, which mean the same.
	Carried(t Trial, i int) (there, back int64)
}

// LargestSegment is the most payload that one packet between links of the kernel can hold, in bytes:
// GSO_LEGACY_MAX_SIZE, include/linux/netdevice.h, which nobody raises here.
const LargestSegment = 1 << 16

// Segments returns how many packets so many bytes of a stream take at least.
func Segments(bytes int64) int64 { return atLeast(bytes, LargestSegment) }

// atLeast returns how many packets hold n if one holds at most so many.
func atLeast(n, most int64) int64 { return (n + most - 1) / most }

// Exchanged says how large requests and responses are on connections, and how many fit into a packet.
type Exchanged struct {
	Together          int // how many of a connection may wait for their responses: a packet holds no more of either
	Request, Response int // bytes of one, at least; 0: unknown
	Renew             bool
}

// Exchanging is what payload, response and sizes say of requests and responses, so many of which wait on a connection.
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

// CarriedExchange returns the packets that the transactions of pair i took at least on streams. Whoever connects for
// each of them takes another packet each way for that.
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

// CarriedMessages returns the packets that the messages of pair i took at least (traffic/flows): a datagram is one, and
// so are 64 KiB of a stream, but no packet belongs to two streams.
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
