// Package tbench is the workload "tbench": the real tbench and tbench_srv, which do over TCP what the clients of a file
// server do under NetBench, without any files (dbench, README; Lezcano 2007 measures containers with it).
//
// Each client is a process with one connection. It sends a request with the size in the load file, waits for the
// response and goes on with the next line. tbench_srv forks a process for each connection, which answers at once
// (child.c, sockio.c, tbench_srv.c). So each client has one message under way, and the workload measures round trips of
// up to 64 KiB, 5 KB on average.
//
// It counts the same as tbench: the bytes of the files that the load file reads and writes, without the headers of the
// requests (sockio.c, nb_writex, nb_readx), in MB of 10^6 bytes (dbench.c, sig_alarm). Its clock is an alarm each
// second. The first second of each run is left out, because its first lines fill files with 22 KB a line, four times as
// much as later ones. In longer runs, tbench's own warm-up of a fifth ends with a whole second, which is also left out.
// The rest is the difference between its total and its first report, over the seconds between them. The Throughput that
// it prints is another figure: that of its last report, which includes the first second and lacks the last one.
package tbench
