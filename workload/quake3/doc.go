// Package quake3 is the workload quake3: a game of some players, packets of the sizes and at the times of the traffic
// model of Lang, Branch and Armitage, "A synthetic traffic model for Quake3" (ACM ACE 2004), in both directions.
//
// The source container has the players, a port each; the sink container has the server, at one port for every eight of
// them. Clients send when they have drawn a picture, or so; the server sends a snapshot to all clients 20 times a
// second. Nobody answers anybody: each direction follows its own schedule, and each packet is timed on its one way. In
// a trial the same packets are due in all stacks.
//
// The paper itself was not at hand. What clients send is what D-ITG generates, which cites it (and which sends nothing
// else: the game of SeCoNetBench has no server, as with server=off). What the server sends is derived from measurements
// by the same group: see the constants, each with its source.
package quake3
