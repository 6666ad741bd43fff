// Package tcpcrr is the workload tcp-crr: a connection is made, carries one request and its response, and is closed;
// then comes the next.
//
// It is netperf's TCP_CRR, system call by system call: the source makes a socket, binds it, connects, sends, receives;
// the sink accepts, receives, sends. A transaction lasts from before socket(2) until after close(2), the time to
// connect (Connect) from before connect(2) until it has returned. Where the sink sleeps in accept(2) by then, and is
// not still busy with the connection before, its being woken is part of that. There is one connection of a pair at a
// time: the sink has answered the last one and closed it before it looks for another.
//
// Without a rate the next connection begins when the one before is over. With a rate it begins when it is due or, where
// that one is not over by then, as soon as it is; latency counts from when it was due, so that a sink that stands still
// cannot hide. Beside it are the time from its beginning (Service), how late that was (Departure), and how many were
// due and had not begun (Backlog).
//
// # Who closes first
//
// is the parameter closes, because the connection stays behind on that side, in TIME_WAIT, for 60 s (TCP_TIMEWAIT_LEN,
// include/net/tcp.h). With closes=sink, as in netperf, the sink closes when it has sent the response, and the source
// when it has seen that. With closes=source, as a client does that has what it wanted, it is the other way round, and a
// transaction does not hold the sink's close. Nobody resets a connection.
//
// # Ports
//
// A connection is known by two addresses and two ports. The source goes round its ports, up to 1024 of them, and with
// each of them round the sink's listening ports (8, the parameter ports): with that many of both, 8192 connections are
// made before the first pair of ports comes again, half a second's worth, and no more stay behind in TIME_WAIT, or in
// the connection tracking of a host on the way. What happens then:
//
//   - closes=sink: the sink's kernel takes the new connection in the old one's place where its first sequence number,
//     or its timestamp, is beyond the old one's (RFC 6191; tcp_timewait_state_process, net/ipv4/tcp_minisocks.c). The
//     first grows by 15 MB a second, the second every millisecond: only where a source has few ports and sends much
//     does a connection have to wait, for some 10 ms.
//   - closes=source: the source's kernel gives the pair of ports away again where the old connection had TCP
//     timestamps, as it has by default (RFC 6191; tcp_twsk_unique, net/ipv4/tcp_ipv4.c: of a port that was bound before
//     connect(2), net.ipv4.tcp_tw_reuse is not asked). Where net.ipv4.tcp_timestamps is 0 connect(2) fails with
//     EADDRNOTAVAIL.
//   - A port that somebody else has is EADDRINUSE in bind(2).
//
// In both cases of failure the next port is tried, and ports_busy counts it; when all have been tried the trial fails
// and says so.
//
// A source that has one port leaves the choice to the kernel (IP_BIND_ADDRESS_NO_PORT), which has those of
// net.ipv4.ip_local_port_range for each port of the sink, 28,232 by default, and finds one ever more slowly as they are
// used up.
//
// # On the wire
//
// A request is one byte, which holds seven bits of the trial's number and whether it is the last of the trial, and
// padding. Where the lengths of requests differ it begins with four bytes, of which three are the length (little
// endian). A response is padding. The sink closes what belongs to another trial.
package tcpcrr
