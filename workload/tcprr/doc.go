// Package tcprr is the workload tcp-rr: requests and responses on connections that last, every one of them timed.
//
// In mode wait both ends sleep until something comes, as an application does; in mode spin both ends ask again and
// again (udp-rr has the same two modes). A pair has one connection and one request in flight, or several of both:
// in-flight requests follow each other on a connection without waiting for a response, and flows are connections that
// the one thread of each end serves as they become ready.
//
// Without a rate the loop is closed: a response is followed by the next request, and a sink that stands still holds one
// request up, whatever was to come meanwhile. With a rate the loop is open: a request leaves when it is due, whatever
// is outstanding, and its latency counts from then (traffic.Latency). Beside it are the time from when it was sent
// (Service), how late it left (Departure), and how many were due and not sent (Backlog). Between two requests that are
// far enough apart the source sleeps until some 150 µs before the second is due, or until a response comes, and asks
// from then on.
//
// # On the wire
//
// A request is one byte, which says whether it is the last of its trial, and padding. Where the lengths of requests
// differ it begins with four bytes, of which three are the length (little endian). A response is padding. The last
// request of each flow is answered like the others, and when that answer has come nothing is on the way any more. The
// connections last for a generation; a trial that could not be drained breaks them, and both ends make them anew before
// their next trial.
package tcprr
