package workload

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
)

// Limits of the options of a socket.
const (
	smallestBuffer = 2 << 10 // bytes; the kernel's minimum (SOCK_MIN_RCVBUF, include/net/sock.h)
	largestBuffer  = 1 << 29 // bytes; the kernel doubles the number, in an int
	largestDSCP    = 63
	longestPoll    = time.Second
)

// SocketParams are the parameters that every workload with sockets has.
func SocketParams() part.List {
	return part.List{
		{
			Name: "send-buffer", Default: "auto", Quiet: true,
			Summary: "size requested with SO_SNDBUF; auto: the kernel's choice",
			Check:   autoOr(part.SizeBetween(smallestBuffer, largestBuffer)),
		},
		{
			Name: "recv-buffer", Default: "auto", Quiet: true,
			Summary: "size requested with SO_RCVBUF; auto: the kernel's choice",
			Check:   autoOr(part.SizeBetween(smallestBuffer, largestBuffer)),
		},
		{
			Name: "dscp", Default: "0", Quiet: true, Summary: "differentiated services code point, 0 to 63",
			Check: part.CountBetween(0, largestDSCP),
		},
		{
			Name: "busy-poll", Default: "0s", Quiet: true,
			Summary: "time that a blocking receive polls the device queue before it sleeps (SO_BUSY_POLL)",
			Check:   part.DurationBetween(0, longestPoll),
		},
	}
}

// StreamParams are the parameters of workloads over TCP.
func StreamParams() part.List {
	return append(SocketParams(), part.Param{
		Name: "congestion", Default: auto, Quiet: true, Summary: "congestion control; auto: that of the experiment",
		Values: []string{auto, "cubic", "reno", "bbr"},
	})
}

// auto lets the kernel choose a size.
const auto = "auto"

// SameOr returns a [part.Param] check for the length of a response, or for "same": that of its request.
func SameOr(check func(string) (string, error)) func(string) (string, error) {
	return wordOr("same", check)
}

func autoOr(check func(string) (string, error)) func(string) (string, error) {
	return wordOr(auto, check)
}

func wordOr(word string, check func(string) (string, error)) func(string) (string, error) {
	return func(s string) (string, error) {
		if s == word {
			return s, nil
		}
		return check(s)
	}
}

// SocketOptions returns the options from [SocketParams], and the congestion control of the spec for a stream.
func (s Spec) SocketOptions() sock.Options {
	o := sock.Options{
		SendBuffer: s.Params.Size("send-buffer"), RecvBuffer: s.Params.Size("recv-buffer"),
		DSCP: s.Params.Count("dscp"), BusyPoll: s.Params.Duration("busy-poll"),
	}
	if own, stream := s.Params["congestion"]; stream && own != auto {
		o.Congestion = own
	} else if stream {
		o.Congestion = s.Congestion
	}
	return o
}
