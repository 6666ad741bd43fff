// Package flows is an engine for messages without answers, on many flows of a pair. Each message is sent when it is
// due, and its one-way time is measured.
//
// An [End] is one side: the sockets of its flows, driven by one thread. It sends by its lanes, each of which has a
// schedule, and counts what it receives if it hears. Both sides of a pair may do both. Flows are datagrams or streams.
//
// A message begins with nettoll's header (trial, number on its flow, when it was due), on a stream followed by its
// length. The one-way time of a message is the time from when it was due until the receiver's application had all of
// it. Both ends need the same clock and the same opening for that, which they have in labs. Jitter does not need a
// common clock (RFC 3550, section 6.4.1).
//
// A thread with a CPU of its own could read the clock until a message is due. But four threads on one CPU, each with
// 9571 messages a second, then wait for each other's time slices: messages arrived 5 ms late. So threads sleep most of
// the time, with timers that are not deferred (timer slack): 0.1 ms late.
//
// A trial ends with a marker. Each flow of datagrams has one, repeated until it is answered. Streams lose nothing, so a
// single marker on one of them suffices; it has the number of messages on all streams. Ten thousand markers would take
// longer than a drain.
package flows
