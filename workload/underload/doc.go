// Package underload is the workload under-load: datagrams leave by a schedule that takes a share of what the path can
// carry, every so many of them is answered, and the answers are timed (sockperf under-load; after the idea of flent's
// RRUL that a latency without load is not the one that users have).
//
// # What is timed
//
// Latency counts from when a datagram was due, not from when it was sent: where the path, the sink or the source itself
// stands still, what was due meanwhile waited, and its latency says so. A closed loop sends nothing meanwhile and sees
// one slow round trip. The service time, from the sending on, is recorded beside it, as are the departure error, the
// backlog and the loss. What was lost has no latency: the two belong together.
//
// The answer is a bare header, however long the datagram: the way back is to carry as little as possible. One thread
// sends and receives. It looks for answers between two datagrams, so that one that comes while another is being sent is
// seen up to a sending later, which is a microsecond or two.
//
// # What capacity is
//
// Each trial begins with a flood, a quarter of the warm-up long: the very loop of the load with everything due at once,
// with the same answers. The sink times what comes of it, and capacity is the rate that is delivered. What the load is
// a share of is the median over all trials that the endpoint has had, which are those of its generation, this one's
// among them: a flood of some milliseconds is easily disturbed. The answer to the end of the flood has come through
// every queue behind the flood, so that these are empty when the load begins; where it has not come when the window
// opens the trial has failed. With several pairs all flood at once, and each finds its part.
//
// The alternative is the highest rate without loss (RFC 2544, section 26.1), which udp-rate searches for. It takes a
// second of ever new floods, longer than the trial itself, and it is a figure of the buffers as much as of the path:
// one that absorbs a stolen millisecond raises it. The delivered rate is known after milliseconds, it is what the
// slowest part can do when it always has something to do, and that is what a queue's utilisation is defined by. It is
// an upper end: where a flood costs the receiver more than it delivers (receive livelock) or where arrivals are uneven,
// a load of less than 100 % can already lose datagrams. The loss is recorded.
//
// Two stacks at the same share carry different loads: the faster one has more to carry, and both are as busy. That is
// what is asked for where the question is how close to its limit a path can be run. Where the question is which stack
// is better for a given traffic, give a rate instead (share=none,rate=20k/s). The records hold capacity and offered
// rate of every trial.
//
// # Modes
//
// In mode wait a sink that has nothing to receive sleeps, as an application does: at low loads the figure holds the
// wake-up of a sleeping CPU, at high loads it never sleeps, so that latency may fall with the load before it rises. In
// mode spin it asks again and again, and what grows with the load is the queue alone. Each mode has a capacity of its
// own: a flood whose sink keeps up with it pays for waking that up. The source keeps its CPU busy in both modes while
// the next datagram is less than 300 µs away, as timers are no more precise than that: where it has to share its CPU
// there is no such workload.
package underload
