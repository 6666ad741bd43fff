// Package agent is the process that configures a host and keeps its workers. [Serve] is the agent itself, over its
// standard streams. [Connect] returns the [Host] at the other end of these streams, over any connection.
//
// An agent ends, with its workers, when its input ends.
package agent
