// Package tcpcrr is the workload tcp-crr: a connection is made, carries one request and its response, and is closed;
// then the next one follows.
//
// It is netperf's TCP_CRR, system call by system call: the source makes a socket, binds it, connects, sends, receives;
// the sink accepts, receives, sends. A transaction lasts from before socket(2) until after close(2), and the time to
// connect (Connect) from before connect(2) until it has returned. If the sink already sleeps in accept(2), and is not
// still busy with the previous connection, that time includes its wake-up. A pair has one connection at a time: the
// sink has answered and closed it before it accepts another.
//
// Without a rate, the next connection begins when the previous one is over. With a rate, it begins when it is due or,
// if the previous one is not over by then, right after it. Latency counts from when it was due, so that a sink that
// stands still is visible. Further figures are the time from its beginning (Service), how late that was (Departure),
// and how many were due and had not begun (Backlog).
//
// # Who closes first
//
// The parameter closes selects the side, because the connection remains there in TIME_WAIT for 60 s (TCP_TIMEWAIT_LEN,
// include/net/tcp.h). With closes=sink, as in netperf, the sink closes when it has sent the response, and the source
// when it has seen that. With closes=source, like a client that has its answer, it is the other way round, and a
// transaction does not include the sink's close. Connections are never reset.
//
// # Ports
//
// A connection is identified by two addresses and two ports. The source uses its ports in turn, up to 1024 of them, and
// for each of them the sink's listening ports in turn (8, the parameter ports). With that many of both, 8192
// connections are made before the first pair of ports is used again, after half a second. No more connections remain in
// TIME_WAIT, or in the connection tracking of a host on the path. After that:
//
//   - closes=sink: the sink's kernel replaces the old connection with the new one if its first sequence number, or its
//     timestamp, is beyond the old one's (RFC 6191; tcp_timewait_state_process, net/ipv4/tcp_minisocks.c). The sequence
//     number grows by 15 MB a second, the timestamp every millisecond. A connection has to wait only if a source has
//     few ports and sends much, for about 10 ms.
//   - closes=source: the source's kernel reuses the pair of ports if the old connection had TCP timestamps, as by
//     default (RFC 6191; tcp_twsk_unique, net/ipv4/tcp_ipv4.c: net.ipv4.tcp_tw_reuse has no effect on a port that was
//     bound before connect(2)). If net.ipv4.tcp_timestamps is 0, connect(2) fails with EADDRNOTAVAIL.
//   - A port that another program uses gives EADDRINUSE in bind(2).
//
// In both cases of failure, the next port is tried, and ports_busy counts the failure. If all ports have failed, the
// trial fails with that reason.
//
// A source with one port leaves the choice to the kernel (IP_BIND_ADDRESS_NO_PORT). The kernel has the ports of
// net.ipv4.ip_local_port_range for each port of the sink, 28,232 by default, and takes longer to find one as they are
// used up.
//
// # On the wire
//
// A request is one byte, with seven bits of the trial's number and whether it is the last of the trial, followed by
// padding. If the lengths of requests differ, it begins with four bytes instead, three of which are the length (little
// endian). A response is padding. The sink closes connections of another trial.
package tcpcrr
