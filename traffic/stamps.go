package traffic

import "encoding/binary"

// StampsSize is the least length in bytes of an answer if both sides have timestamps: the header, and the sink's
// timestamps of the previous exchange.
const StampsSize = HeaderSize + 24

// PutStamps writes into an answer when the kernel received the request with a number and when the device got its
// answer, in ns of the sink's clock.
func PutStamps(buf *[StampsSize]byte, seq uint64, came, left int64) {
	binary.LittleEndian.PutUint64(buf[HeaderSize:], seq)
	binary.LittleEndian.PutUint64(buf[HeaderSize+8:], uint64(came))
	binary.LittleEndian.PutUint64(buf[HeaderSize+16:], uint64(left))
}

// Stamps reads what PutStamps has written.
func Stamps(buf *[StampsSize]byte) (seq uint64, came, left int64) {
	return binary.LittleEndian.Uint64(buf[HeaderSize:]), int64(binary.LittleEndian.Uint64(buf[HeaderSize+8:])),
		int64(binary.LittleEndian.Uint64(buf[HeaderSize+16:]))
}

// NoStamps is the number in answers without timestamps of an exchange.
const NoStamps = Marker

// Messages of a trial whose driver takes no timestamps. Loopback, veth and tun take them; a driver that does not call
// skb_tx_timestamp, or a macvlan that passes packets to another one on the same link, does not.
const (
	noDeparture = "no departure timestamps: the driver of the source's device does not support them: use " +
		"timestamps=none"
	noSinkDeparture = "no departure timestamps of the sink: the driver of its device does not support them: use " +
		"timestamps=none"
)

// stamp records the parts of a round trip, after it. The sender's stack is that of the request, from the call to the
// driver. The receiver's stack is that of the answer, from its arrival in the kernel to the return of recv. The wire is
// the time between the driver of one side and the kernel of the other, averaged over both directions: the time from the
// departure of the request to the arrival of the answer, minus the time at the sink (RFC 5905, section 8), divided by
// two. No clocks are compared. The sink can report its timestamps of an answer only in the next answer, so the wire is
// that of the previous exchange.
//
// From the error queue, it takes the first departure since the request was sent, without its number
// (SOF_TIMESTAMPING_OPT_ID): with one request in flight, the time identifies it.
func (e *Exchange) stamp(seq uint64, sent, now int64, ok bool) {
	from, to := sent+e.offset, now+e.offset
	left := e.Flows[e.flow].Departed(from)
	before := e.stamped
	e.stamped.seq = NoStamps
	if !ok {
		return
	}
	departed, arrived := left != 0 && left <= to, from <= e.came && e.came <= to
	if departed && arrived {
		e.stamped.seq, e.stamped.away = seq, e.came-left
	}
	if sent < e.window.Start {
		return
	}
	if departed {
		e.Recorders[SenderStack].Record(left - from)
	}
	if arrived {
		e.Recorders[ReceiverStack].Record(to - e.came)
	}
	told, came, gone := Stamps((*[StampsSize]byte)(e.In[e.InAt:]))
	if told != NoStamps && told == before.seq && before.away >= gone-came {
		e.Recorders[Wire].Record((before.away - (gone - came)) / 2)
	}
}

// stampedTrip is an exchange for which the sink's timestamps have not arrived yet.
type stampedTrip struct {
	seq  uint64
	away int64 // ns from the departure of the request to the arrival of the answer
}

// doubtStamps adds a doubt that names the missing timestamps.
func (e *Exchange) doubtStamps() {
	if e.Sample.Received == 0 || e.Sample.Doubt != "" {
		return
	}
	switch {
	case e.Recorders[SenderStack].Count == 0:
		e.Sample.Doubt = noDeparture
	case e.Recorders[Wire].Count == 0 && e.Sample.Received > 1:
		e.Sample.Doubt = noSinkDeparture
	}
}
