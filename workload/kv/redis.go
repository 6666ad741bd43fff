package kv

import (
	"errors"
	"maps"
	"net/netip"
	"strconv"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// redis is the server that is redis-server.
const redis = "redis"

func redisNeeded() program.Needed {
	return program.Needed{By: "kv with server redis", Program: "redis-server", Package: "redis-server"}
}

const (
	// memory is what redis-server may take besides values and requests, in bytes: some 50 for each of a million keys and
	// their entries, and some 30 KB for each of a thousand clients (redis.io, "Memory optimization", "Redis client
	// handling").
	memory = 256 << 20

	backlog = 1024 // connections that are made at once: as many as there can be clients

	fillers = 16 // requests on the way while a server is filled
)

// newRedis makes a sink that is redis-server: without a file of its own to read or write, so that nothing of it is left
// and nothing that a machine has configured counts. All else is as its authors set it.
func newRedis(s workload.Spec) (traffic.Endpoint, error) {
	if s.Stall != (workload.Stall{}) || s.Plant > 0 {
		return nil, errors.New("open kv with server redis: planted delays are not supported (use server=embedded)")
	}
	n := redisNeeded()
	r := program.Role{
		By: n.By, Program: n.Program, Package: n.Package, Local: s.Local, Listens: "tcp", Stop: program.Serves,
		Options: s.SocketOptions(),
		Args: func(int) []string {
			return []string{
				"--bind", s.Local.Addr().String(), "--port", strconv.Itoa(int(s.Local.Port())), "--protected-mode", "no",
				"--tcp-backlog", strconv.Itoa(backlog),
				"--save", "", "--appendonly", "no", "--dir", "/", "--daemonize", "no",
				"--maxmemory", strconv.Itoa(bound(s)), "--maxmemory-policy", "noeviction",
			}
		},
		Before: func() error { return program.Unpace(s.SocketOptions().Congestion) },
	}
	if s.Driver != "" { // a source of ours fills it itself
		r.Fill = func() error { return fill(s) }
	}
	var err error
	if r.Granted, err = sock.Grants(s.Local.Addr(), true, s.SocketOptions()); err != nil {
		return nil, err
	}
	return r.Open()
}

// bound is how much memory a server may take: twice the values, since a value that is set is there beside the one
// before, and twice the requests on the way, which are read whole. More is an error, and not a machine that runs out of
// it.
func bound(s workload.Spec) int {
	payload := s.Params.Size("payload")
	return memory + 2*payload*(workload.Keys(s.Params)+s.Params.Count("clients")*s.Params.Count("pipeline"))
}

// fill gives a server that listens its values. The calling thread is in its network namespace.
func fill(s workload.Spec) error {
	s.Side, s.Remote, s.Local = workload.Source, s.Local, netip.AddrPortFrom(s.Local.Addr(), 0)
	s.Params = maps.Clone(s.Params)
	s.Params["clients"], s.Params["pipeline"], s.Params["rate"] = "1", strconv.Itoa(fillers), closed
	source, err := newSource(s)
	if err != nil {
		return err
	}
	defer source.Close()
	source.Prepare(0)
	if why := source.Sample().Failure; why != "" {
		return errors.New(why)
	}
	return nil
}
