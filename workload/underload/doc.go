// Package underload is the workload under-load: datagrams are sent on a schedule that uses a share of the path's
// capacity. One in every few is answered, and the time of the answers is measured (sockperf under-load; after the idea
// of flent's RRUL that users do not experience the latency without load).
//
// # What is timed
//
// Latency counts from when a datagram was due, not from when it was sent. If the path, the sink or the source itself
// stands still, the datagrams that were due meanwhile waited, and their latency shows it. A closed loop would send
// nothing meanwhile and see one slow round trip. The service time, which counts from sending, is also recorded, as are
// the departure error, the backlog and the loss. Lost datagrams have no latency, so read loss and latency together.
//
// The answer is a bare header, however long the datagram, so that the way back carries as little as possible. One
// thread sends and receives. It looks for answers between two datagrams, so an answer that arrives while another
// datagram is being sent is seen one send later, a microsecond or two.
//
// # What capacity is
//
// Each trial begins with a flood of a quarter of the warm-up: the same loop as for the load, with everything due at
// once, and with the same answers. The sink measures the time of its arrival, and capacity is the delivered rate. The
// load is a share of the median over all trials of the endpoint so far in its generation, including this one. The
// reason is that a flood of a few milliseconds is easily disturbed. The answer to the end of the flood has passed
// through every queue behind the flood, so the queues are empty when the load begins. If it has not arrived when the
// window opens, the trial has failed. With several pairs, all flood at the same time, and each finds its part.
//
// The alternative is the highest rate without loss (RFC 2544, section 26.1), for which udp-rate searches. That takes a
// second of repeated floods, longer than the trial itself. It also depends on the buffers as much as on the path: a
// buffer that absorbs a stolen millisecond raises it. The delivered rate is known after milliseconds. It is what the
// slowest part can do if it always has work, which is the basis of a queue's utilisation. It is an upper limit: if a
// flood costs the receiver more than it delivers (receive livelock), or if arrivals are uneven, a load of less than 100
// % may already lose datagrams. The loss is recorded.
//
// Two stacks at the same share carry different loads: the faster one carries more, and both are equally busy. That
// answers how close to its limit a path can be used. To find which stack is better for a given traffic, set a rate
// instead (share=none,rate=20k/s). The records have the capacity and the offered rate of every trial.
//
// # Modes
//
// In mode wait, a sink with nothing to receive sleeps, like an application. At low loads, the figure includes the
// wake-up of a sleeping CPU. At high loads, the sink never sleeps, so latency may fall with the load before it rises.
// In mode spin, it polls, and only the queue grows with the load. Each mode has its own capacity: a flood to a sink
// that keeps up with it pays for waking the sink. In both modes, the source keeps its CPU busy while the next datagram
// is due in less than 300 µs, because timers are no more precise than that. It is therefore refused if the source has
// to share its CPU.
package underload
