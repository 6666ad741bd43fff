package tcpstream

import (
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Thresholds that determine the limit of a trial. The first two are shares of a thread's time, the others of the time
// in which connections had something to send. They are based on trials of 200 ms over loopback with cubic (Linux 6.18,
// two CPUs, one for each end):
//
//	                                   writer awake  reader awake  receive window full
//	128 KiB messages                   0.96 to 1.00  0.78 to 0.94  0 to 0.68
//	64 bytes, 1 byte                   1.00          0.21 to 0.32  0
//	64 bytes, CPU for a third of it    0.91 to 1.00  0.26 to 0.45  0
//	reader stands still 2 of 2.1 ms    0.02 to 0.19  0.99 to 1.00  0.95 to 1.00
//	receive buffer of 16 KiB           0.51 to 0.55  0.58 to 0.61  1.00
//	token bucket of 100 Mbit/s         0.02 to 0.35  0.06 to 0.16  0
//
// In the third and the last row, other work wanted the CPUs: the threads of the last one ran for 0.005 and 0.013 of the
// time.
const (
	// a thread that was awake for a larger share never waited: over loopback the side that is the limit is awake for
	// 0.96 to 1.00
	always   = 0.95
	seldom   = 0.5 // a thread that was awake for a smaller share waited for something most of the time
	mostly   = 0.5 // share of the time in which something else blocked the connections
	slightly = 0.05
)

// limited returns what kept the goodput from being higher.
//
// A thread that was awake all the time, running or waiting for a CPU, never waited for the other end. On one machine,
// the writer's thread also does most of the work of the path and of the receiver's protocol, in softirqs: there,
// "sender" means the CPU of the writing side. The kernel counts what TCP itself waited for (tcp_chrono_start,
// net/ipv4/tcp_output.c): a full receive window means that the reader was behind. A small send buffer is hardly ever
// counted, not even one of 4 KiB (tcp_cwnd_validate requires that the writer sleeps and everything was sent at the
// moment of a transmission). So with a requested send buffer, two waiting ends do not mean that the path is the limit.
func limited(t workload.Trial) workload.Limit {
	writers, readers := roles(t)
	tcp := counted(t)
	if tcp[countBusy] <= 0 {
		return "" // an external program: nothing is known
	}
	busy := float64(tcp[countBusy])
	writing, reading := awake(writers), awake(readers)
	switch peer, own := float64(tcp[countPeerLimited])/busy, float64(tcp[countSendLimited])/busy; {
	case peer >= mostly, reading >= always && writing < always:
		return workload.ByReceiver
	case writing >= always, own >= mostly:
		return workload.BySender
	case peer >= slightly || own >= slightly:
		return "" // several causes, each for some of the time
	case t.Params.Size("send-buffer") == 0 && writing < seldom && reading < seldom:
		return workload.ByPath
	}
	return ""
}

// roles returns the sides that write and the sides that read.
func roles(t workload.Trial) (writers, readers []traffic.Sample) {
	switch t.Params["direction"] {
	case reverse:
		return t.Sinks, t.Sources
	case both:
		all := append(append([]traffic.Sample{}, t.Sources...), t.Sinks...)
		return all, all
	}
	return t.Sources, t.Sinks
}

// awake returns the share of their time in which threads ran, or could have run if there had been a CPU.
func awake(side []traffic.Sample) float64 {
	var ran, span float64
	for _, s := range side {
		ran += float64(s.CPU - s.ProgramCPU + s.Counts[countDelayed])
		span += float64(s.Span)
	}
	if span == 0 {
		return 0
	}
	return ran / span
}
