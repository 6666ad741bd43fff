// Package agent is the process that configures a host and keeps its workers: [Serve] is the agent itself, over its
// standard streams, and [Connect] is the [Host] at the other end of them, over whatever carries those streams
// here.
//
// An agent lives as long as its input. When that ends, so do its workers and the agent.
package agent
