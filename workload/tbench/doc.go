// Package tbench is the workload "tbench": the real tbench and tbench_srv, which do over TCP what the clients of a file
// server do under NetBench, without any files (dbench, README; Lezcano 2007 measures containers with it).
//
// Each client is a process with one connection. It sends a request of the size that the load file asks for, waits for
// the response and goes on with the next line; tbench_srv forks a process for each connection, which answers at once
// (child.c, sockio.c, tbench_srv.c). So there is one message under way for each client, and what is measured is round
// trips of up to 64 KiB, 5 KB on average.
//
// What counts is what tbench counts: the bytes of the files that the load file reads and writes, without the headers of
// the requests (sockio.c, nb_writex, nb_readx), in MB of 10^6 bytes (dbench.c, sig_alarm). Its clock is an alarm each
// second. The first second of each run is left out: its first lines fill files with 22 KB a line, four times as much as
// those that follow, and so is the whole second of its own that a warm-up of a fifth of longer runs ends with. The rest
// is the difference between its total and its first report, over the seconds between them. What it prints as Throughput
// is another figure: that of its last report, which holds the first second and lacks the last one.
package tbench
