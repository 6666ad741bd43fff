// Package protocol is how controller, agent and worker talk: JSON-RPC 2.0 in frames of a 4-byte big-endian length and
// that many bytes of JSON, over any two streams, with calls in one direction and notifications in the other.
//
// A peer that breaks a rule (an empty or too large frame, a torn one, a body that is not JSON) ends the connection:
// every pending call fails, nothing waits for it and nothing is allocated for what it only announced. A peer that
// reads nothing blocks nobody: what is sent waits in a queue, and a call ends with its context.
package protocol
