// Package connections is the workload with many TCP connections at once, each with little traffic. It follows
// SeCoNetBench's "100-TCP-Connections" (paper 004, section V.B.4: "100 simultaneous TCP connections between the
// container pairs with a throughput of about 500 Kbps per connection", by D-ITG), which "crashed often and its results
// were inconclusive" there (section V.D.2).
//
// A pair's connections are made once, all at the same time when its endpoints open, and are kept. Connections that a
// trial loses are replaced before the next one. Each connection is a sender of its own. Its messages are due evenly,
// from a start that is drawn for it alone, anew in each trial and the same in all stacks. They are sent without Nagle's
// algorithm (RFC 896), which would hold them back. The time of each message counts from when it was due until the
// sink's application has all of it. One thread at each end serves all connections (traffic/flows): if it is late, all
// of them are.
//
// Above 100 connections, their total traffic is limited to 50 Mbit/s: their number grows, not the load.
package connections
