package dns

import (
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
)

// A stream's messages are preceded by their length (RFC 1035, section 4.2.2).

// farewell returns the query that ends a trial over TCP. Its connections belong to this trial, or to one that was
// drained, so it needs no number.
func farewell() (query []byte, reply int) {
	var marker [markerSize]byte
	putMarker(&marker, 0)
	m := append([]byte{0, byte(markerSize)}, marker[:]...)
	return m, len(m) // the denial has the question and no record
}

func (s side) streamSource() (traffic.Endpoint, error) {
	a, err := s.newAsker()
	if err != nil {
		return nil, err
	}
	schedule, err := s.schedule(a.size)
	if err != nil {
		return nil, err
	}
	bye, reply := farewell()
	c, err := dialogue.NewClient(dialogue.ClientSpec{
		Local: s.Local, Remote: s.Remote, Options: s.SocketOptions(), Connections: s.Params.Count("clients"),
		Pipeline: s.Params.Count("in-flight"),
		Schedule: schedule, Farewell: bye, Leave: reply,
		Asks: dialogue.Asks{Asker: &framed{a, traffic.Buffer(frame + a.size)}, Head: frame + a.most, Explain: explain},
	})
	if err != nil {
		return nil, err
	}
	return &streamSource{c, a}, nil
}

// streamSource sends queries on connections.
type streamSource struct {
	*dialogue.Client
	asker *asker
}

// Prepare implements [traffic.Endpoint].
func (s *streamSource) Prepare(trial uint64) {
	s.asker.begin(trial)
	s.Client.Prepare(trial)
}

// framed is an asker whose messages are preceded by their length.
type framed struct {
	*asker
	buf []byte
}

// Request implements [dialogue.Asker].
//
//go:nosplit
func (f *framed) Request(number uint64) []byte {
	put16(f.buf, 0, uint16(f.Put(f.buf[frame:], number)))
	return f.buf
}

// Answer implements [dialogue.Asker].
//
//go:nosplit
func (f *framed) Answer(number uint64, head []byte) (size int, v dialogue.Verdict) {
	if len(head) < frame {
		return 0, dialogue.Partial
	}
	size = frame + int(get16(head, 0))
	if len(head) < size && len(head) < frame+f.most {
		return 0, dialogue.Partial
	}
	m := head[frame:min(size, len(head))]
	service := int(f.order[number%uint64(len(f.order))])
	switch {
	case len(m) < headerSize || get16(m, 0) != f.first+uint16(number) ||
		get16(m, 2)&(flagResponse|opcodeMask) != flagResponse || !f.answers(m, service):
		return size, dialogue.Alien
	case !f.right(m, service):
		return size, dialogue.Bad
	default:
		return size, dialogue.Good
	}
}

// explain describes what is wrong with an answer.
func explain(_ uint64, head []byte) string {
	var p dnsmessage.Parser
	if len(head) < frame {
		return ""
	}
	h, err := p.Start(head[frame:])
	switch {
	case err != nil:
		return ""
	case h.RCode != dnsmessage.RCodeSuccess:
		return "the server says " + strings.TrimPrefix(h.RCode.String(), "RCode")
	default:
		return ""
	}
}

// streamSink answers on connections.
func (s side) streamSink() (traffic.Endpoint, error) {
	a := &answerer{zone: s.zone(), out: traffic.Buffer(messageMax)}
	putMarker(&a.marker, 0)
	return dialogue.NewServer(dialogue.ServerSpec{
		Local: s.Local, Options: s.SocketOptions(), Answerer: a, Most: s.MostClients(),
		StallEvery: s.Stall.Every, StallFor: s.Stall.For, Plant: s.Plant,
	})
}

// answerer answers the queries of a stream.
type answerer struct {
	zone   *zone
	out    []byte
	marker [markerSize]byte
}

// Serve implements [dialogue.Answerer].
//
//go:nosplit
func (a *answerer) Serve(in, reply []byte) (taken int, _ []byte, then dialogue.Then) {
	if len(in) < frame {
		return frame, reply, dialogue.Wait
	}
	taken = frame + int(get16(in, 0))
	if len(in) < taken {
		return taken, reply, dialogue.Wait
	}
	m := in[frame:taken]
	n := a.zone.answer(a.out, m, true)
	if n == 0 { // not a query, and what follows is none either
		return taken, reply, dialogue.HangUp
	}
	reply = append(append(reply, byte(n>>8), byte(n)), a.out[:n]...)
	if marks(m, &a.marker) {
		return taken, reply, dialogue.Over
	}
	return taken, reply, dialogue.Next
}
