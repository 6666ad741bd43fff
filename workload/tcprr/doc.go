// Package tcprr is the workload tcp-rr: requests and responses on kept connections, with the time of each.
//
// In mode wait, both ends sleep until something arrives, like an application; in mode spin, both ends poll (udp-rr has
// the same two modes). A pair has one connection and one request in flight, or several of both: in-flight requests
// follow each other on a connection without waiting for a response, and flows are connections that the single thread of
// each end serves as they become ready.
//
// Without a rate, the loop is closed: a response is followed by the next request. A sink that stands still delays only
// one request, however many would have followed. With a rate, the loop is open: a request is sent when it is due,
// whatever is in flight, and its latency counts from then (traffic.Latency). Further figures are the time from when it
// was sent (Service), how late it was sent (Departure), and how many were due and not sent (Backlog). If two requests
// are far enough apart, the source sleeps until about 150 µs before the second one is due, or until a response arrives,
// and then polls.
//
// # On the wire
//
// A request is one byte, which says whether it is the last of its trial, followed by padding. If the lengths of
// requests differ, it begins with four bytes instead, three of which are the length (little endian). A response is
// padding. The last request of each flow is answered like the others; after that answer, nothing is under way any more.
// The connections are kept for a generation. A trial that could not be drained breaks them, and both ends replace them
// before their next trial.
package tcprr
