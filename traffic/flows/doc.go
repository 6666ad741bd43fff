// Package flows is messages that nobody answers, on many flows of a pair, each sent when it is due and timed on its one
// way.
//
// An [End] is one side: the sockets of its flows, driven by one thread. What it sends are its lanes, a schedule each;
// what comes in it counts, if it hears. Both sides of a pair may do both. Flows are datagrams or streams.
//
// A message begins with nettoll's header (trial, number on its flow, when it was due), on a stream followed by its
// length. The one-way time of a message is from when it was due to when the receiver's application had all of it, which
// is one time where both ends have the same clock and the same opening, as they have in labs. Its jitter needs no
// common clock (RFC 3550, section 6.4.1).
//
// A thread that has its CPU to itself could ask the clock until a message is due. Four that share one, each with 9571
// messages a second to send, then wait for each other's time slices: messages came 5 ms late. So threads sleep for most
// of the time, with timers that are not put off (timer slack): 0.1 ms.
//
// The end of a trial is a marker: on each flow of datagrams one, again and again until it is answered; on streams,
// where nothing is lost, a single one on one of them, which says how many messages there were on all. Ten thousand
// markers would take longer than a drain.
package flows
