// Package dns is the workload dns: queries for the names of a cluster's services over UDP or TCP, answered with their
// addresses. It is the most common small exchange in a cluster, before nearly every connection.
//
// The server is nettoll's own (RFC 1035, RFC 6891). It has a number of services svc-0000.default.svc.cluster.local and
// so on, with addresses derived from their numbers. The client checks each answer down to the last relevant byte: id,
// question, no error, number of addresses, and the addresses. Clients query all names repeatedly, in an order derived
// from the seed. Nothing is cached: the workload measures the path and both ends, not a resolver.
//
// With one query in flight, the figure is how long a program waits before it can connect: the path in both directions
// and the wake-up of both ends, as in udp-rr with 52 and 68 bytes, plus reading and writing the messages. With many in
// flight, the figure is how many queries a path and a server's thread can carry. At a rate, latency counts from when a
// query was due.
//
// Over UDP, a query without an answer after 200 ms counts as lost (traffic.Exchange). Real resolvers wait for 5 s
// before they repeat a query (resolv.conf(5), timeout): for a program, each loss is a pause of 5 s, which no latency
// here includes. So look at loss before latency. Each client keeps its port. glibc takes a new port for each lookup,
// and a path with connection tracking makes a new entry for each; udp-rr(flow=fresh) measures the first packet of a
// flow.
//
// Over TCP, connections are kept, and a client has a number of queries in flight on its own connection (RFC 7766,
// section 6.2.1.1). Answers arrive in the order of their queries; our server keeps that order, although RFC 7766 does
// not require it.
//
// Answers that do not fit (512 bytes, or what the client announces with edns) are truncated, with the truncation bit
// set; parameters that would cause that are refused. The end of a trial is a query for a name below .invalid, over
// either transport, which any server would deny. The server refuses names that it does not know, because it is not a
// resolver. Denials have no SOA record, which only caches need.
package dns
