// Package dialogue is the engine of workloads that ask and are answered over TCP by a protocol: a client, which drives
// many connections with one thread and times every answer, and a server, which answers whoever connects.
//
// # The client
//
// Without a schedule the loop is closed: each connection has as many requests in flight as the pipeline is deep, and an
// answer is followed by the next request at once. With one the loop is open: a request goes, when it is due, to the
// connection that has waited longest for one and has room in its pipeline; where none has room it waits, which its
// latency counts (traffic.Latency is from when it was due). What a request says is a pure function of its number, which
// begins with 0 in each trial and is counted over all connections.
//
// Neither needs anything of the server: whoever speaks the protocol is asked ([ClientSpec.Fresh], [ClientSpec.Load]).
// The last answers are waited for until the drain is over (traffic.DrainLimit); a trial that could not be drained
// breaks its connections.
//
// # The server
//
// It accepts whoever connects and answers what is whole, whoever asks and however many requests are on the way; answers
// that go to one connection go out together. It writes as much as the socket takes, keeps the rest, and reads no more
// from that connection until that is gone. Its trial lasts until the client takes its leave ([ClientSpec.Farewell],
// [Over]) or, where it does not, until the drain is over.
package dialogue
