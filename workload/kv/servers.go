package kv

import (
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
	"github.com/nettoll/nettoll/workload"
)

// servers lists the servers.
func servers() []string { return []string{embedded, redis} }

// newServer makes the sink. All servers except the embedded one are started for each trial, and are filled before it
// opens: by the source or, if that is another program, by the sink.
func newServer(s workload.Spec) (traffic.Endpoint, error) {
	switch s.Params["server"] {
	case embedded:
		st := newStore(workload.Keys(s.Params), s.Params.Size("payload"))
		return dialogue.NewServer(dialogue.ServerSpec{
			Local: s.Local, Options: s.SocketOptions(), Answerer: st, Longest: longestCommand,
			Most: s.MostClients(), StallEvery: s.Stall.Every, StallFor: s.Stall.For, Plant: s.Plant,
		})
	case redis:
		return newRedis(s)
	default:
		return nil, fmt.Errorf("open kv: server %q (valid: %s)", s.Params["server"], strings.Join(servers(), ", "))
	}
}
