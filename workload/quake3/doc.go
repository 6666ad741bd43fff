// Package quake3 is the workload quake3: a game of several players, with packet sizes and times of the traffic model of
// Lang, Branch and Armitage, "A synthetic traffic model for Quake3" (ACM ACE 2004), in both directions.
//
// The source container has the players, each with a port; the sink container has the server, with one port for every
// eight of them. Clients send approximately after each drawn picture; the server sends a snapshot to all clients 20
// times a second. There are no answers: each direction follows its own schedule, and the one-way time of each packet is
// measured. In a trial, the same packets are due in all stacks.
//
// The paper itself was not available. The clients' packets are those that D-ITG generates, which cites the paper. D-ITG
// sends nothing else: the game of SeCoNetBench has no server, like server=off here. The server's packets are derived
// from measurements by the same group: see the constants, each with its source.
package quake3
