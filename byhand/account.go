package byhand

import (
	"fmt"
	"maps"
	"net/netip"
	"strconv"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/workload"
)

const (
	// leastBuffer is the smallest buffer that a sink sets, in bytes as the kernel counts: that with which the kernel
	// lets streams begin to send (tcp_init, net/ipv4/tcp.c).
	leastBuffer = 16 << 10

	// doubled is by how much the kernel multiplies the size that is set, for its overhead (socket(7)).
	doubled = 2
)

// buffer is one of the two buffers of every socket of a sink.
type buffer struct {
	param string
	size  int64 // bytes at most, as the kernel counts
	auto  bool  // the kernel chooses the size
}

// grant is what a session gives to an opening.
type grant struct {
	params part.Params // of the sinks
	data   int64       // bytes that the buffers of all their sockets hold at most
	limits *limits     // to which it limits the buffers; nil: it does not
}

// afford counts what the sinks of an opening hold at most, before they are opened: memory of this process, and data in
// the buffers of their sockets, which is memory of the kernel. Buffers that could grow beyond the memory of the session
// are limited to equal parts of it. All is given back when the process ends.
func (s *session) afford(d workload.Description, params part.Params, pairs int, at netip.Addr) (grant, error) {
	own := ownMemory + int64(pairs)*d.SinkMemory(params)
	sockets := int64(pairs) * d.SinkSockets(params)
	send, recv, err := buffers(params, at)
	if err != nil {
		return grant{}, err
	}
	free := s.Memory - own
	room := max(0, free/sockets)
	short := send.size+recv.size > room
	switch {
	case !short:
	case send.auto && recv.auto:
		send.limit(max(room/2, room-recv.size))
		recv.limit(room - send.size)
	case send.auto:
		send.limit(room - recv.size)
	case recv.auto:
		recv.limit(room - send.size)
	}
	data := sockets * (send.size + recv.size)
	if data > free {
		return grant{}, fmt.Errorf("%s with %s asks for %s of memory, %w, %s (its --memory; hint: fewer pairs, or smaller "+
			"parameters): %s of it for data in %s, for which %s is free", d.ID(params), count(pairs, "pair"),
			bytesText(own+data), errMemory, bytesText(s.Memory), bytesText(data), count(int(sockets), "socket"),
			bytesText(max(0, free)))
	}
	g := grant{params: params, data: data}
	if short {
		g.params, g.limits = maps.Clone(params), &limits{Send: send.size, Recv: recv.size}
		for _, b := range []buffer{send, recv} {
			if b.auto {
				g.params[b.param] = strconv.FormatInt(b.size/doubled, 10)
			}
		}
	}
	return g, nil
}

// limit lowers the size of a buffer.
func (b *buffer) limit(to int64) { b.size = min(b.size, max(to, leastBuffer)) }

// buffers returns the buffers of a socket with these parameters.
func buffers(params part.Params, at netip.Addr) (send, recv buffer, err error) {
	auto, err := sock.Largest(at, false)
	if _, stream := params["congestion"]; stream && err == nil { // dns may also use datagrams
		var f sock.Facts
		f, err = sock.Largest(at, true)
		auto.SendBuffer, auto.RecvBuffer = max(auto.SendBuffer, f.SendBuffer), max(auto.RecvBuffer, f.RecvBuffer)
	}
	one := func(param string, auto int) buffer {
		if set := params.Size(param); set > 0 {
			return buffer{param: param, size: doubled * int64(set)}
		}
		return buffer{param: param, size: int64(auto), auto: true}
	}
	return one("send-buffer", auto.SendBuffer), one("recv-buffer", auto.RecvBuffer), err
}
