// Package dns is the workload dns: names of a cluster's services, asked for over UDP or TCP, and their addresses: the
// most common small exchange in a cluster, before nearly every connection.
//
// The server is nettoll's own (RFC 1035, RFC 6891): it knows so many services of svc-0000.default.svc.cluster.local and
// so on, with addresses that follow from their numbers, and the client checks each answer to the last byte that
// matters: id, question, no error, how many addresses, which. Clients ask for all names again and again, in an order
// that follows from the seed. Nobody caches: what is measured is the path and both ends, not a resolver.
//
// With one query in flight the figure is what a program waits for before it can connect: the path both ways and the
// wake-up of both ends, which is udp-rr's of 52 and 68 bytes and the reading and writing of messages. With many it is
// how many queries a path and a server's thread can carry. At a rate, latency counts from when a query was due.
//
// Over UDP a query whose answer is not there after 200 ms counts as lost (traffic.Exchange). Real resolvers wait for 5
// s before they ask again (resolv.conf(5), timeout): to a program, each of the lost is 5 s of standing still, which no
// latency here has. So loss, not latency, is what to look at first. Each client keeps its port; glibc takes a new one
// for each lookup, of which a path with connection tracking makes a new entry each: udp-rr(flow=fresh) has the first
// packet of a flow.
//
// Over TCP connections last, and a client has so many queries on the way on its own (RFC 7766, section 6.2.1.1).
// Answers come in the order of their queries, which our server keeps and RFC 7766 does not ask for.
//
// Answers that do not fit (512 bytes, or what the client announces with edns) are cut off, and the truncation bit says
// so; the parameters that would make them so are refused. The end of a trial is a query for a name below .invalid, over
// either transport, which any server would deny. What the server does not know it refuses, as one that is no resolver;
// denials have no SOA record, which only caches would need.
package dns
