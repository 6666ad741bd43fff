// Package dialogue is the engine of request/response workloads over TCP. Its client drives many connections with one
// thread and times every answer. Its server answers every client.
//
// # The client
//
// Without a schedule, the loop is closed: each connection has as many requests in flight as the pipeline is deep, and
// an answer is followed by the next request at once. With a schedule, the loop is open. When a request is due, it goes
// to the connection with room in its pipeline that has been idle for longest. If no connection has room, the request
// waits, and its latency includes the wait (traffic.Latency counts from when it was due). The content of a request is a
// pure function of its number, which starts at 0 in each trial and counts over all connections.
//
// The client works with any server of the protocol ([ClientSpec.Fresh], [ClientSpec.Load]). It waits for the last
// answers until the drain is over (traffic.DrainLimit). If a trial could not be drained, it breaks its connections.
//
// # The server
//
// The server accepts every connection and answers complete requests, however many are in flight; answers on one
// connection are sent together. It writes as much as the socket takes, keeps the rest, and reads no more from that
// connection until the rest is sent. Its trial lasts until the client says farewell ([ClientSpec.Farewell], [Over]) or,
// if it does not, until the drain is over.
package dialogue
