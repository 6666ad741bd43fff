// Package protocol is the protocol between controller, agent and worker. It is JSON-RPC 2.0 over any two streams, with
// calls in one direction and notifications in the other. A frame is a 4-byte big-endian length and that many bytes of
// JSON.
//
// A peer that breaks a rule ends the connection, for example with an empty, too large or incomplete frame, or with a
// body that is not JSON. Every pending call then fails, and nothing waits for that peer. No memory is allocated for
// data that was only announced. A peer that does not read blocks nobody: data for it waits in a queue, and a call ends
// with its context.
package protocol
