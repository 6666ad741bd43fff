// Package connections is many TCP connections at once, each with a little traffic: SeCoNetBench's "100-TCP-Connections"
// (paper 004, section V.B.4: "100 simultaneous TCP connections between the container pairs with a throughput of about
// 500 Kbps per connection", by D-ITG), which "crashed often and its results were inconclusive" there (section V.D.2).
//
// A pair's connections are made once, when its endpoints open, all at the same time, and last; what a trial loses is
// made anew before the next. Each connection is a sender of its own: its messages are due evenly, from a time on that
// is drawn for it alone, anew in each trial and alike in all stacks. They go without Nagle's algorithm (RFC 896), which
// would hold them back. Each is timed from when it was due to when the sink's application has all of it. One thread at
// each end serves all connections (traffic/flows): if it is late, all of them are.
//
// Above 100 connections the traffic of all of them together is held at 50 Mbit/s: what grows is their number, not the
// load.
package connections
