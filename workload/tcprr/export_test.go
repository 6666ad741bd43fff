package tcprr

import "github.com/nettoll/nettoll/traffic"

// Break ends the connections of a source between two trials.
func Break(e traffic.Endpoint) { e.(*source).drop() }

// Shut ends the connections of a sink, whatever its thread does.
func Shut(e traffic.Endpoint) {
	for _, c := range e.(*sink).conns {
		c.Shutdown()
	}
}
