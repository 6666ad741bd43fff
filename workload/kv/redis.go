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

// redis is the value of the server parameter for redis-server.
const redis = "redis"

func redisNeeded() program.Needed {
	return program.Needed{By: "kv with server redis", Program: "redis-server", Package: "redis-server"}
}

const (
	// memory is how much memory redis-server may use in addition to values and requests, in bytes: about 50 for each of
	// a million keys and their entries, and about 30 KB for each of a thousand clients (redis.io, "Memory
	// optimization", "Redis client handling").
	memory = 256 << 20

	backlog = 1024 // connections made at the same time: up to the largest number of clients

	fillers = 16 // requests in flight while a server is filled
)

// newRedis makes a sink that runs redis-server, which reads and writes no files. So nothing of it is left, and the
// machine's configuration has no effect. All other settings are its defaults.
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
	if s.Driver != "" { // a source of nettoll fills it itself
		r.Fill = func() error { return fill(s) }
	}
	var err error
	if r.Granted, err = sock.Grants(s.Local.Addr(), true, s.SocketOptions()); err != nil {
		return nil, err
	}
	return r.Open()
}

// bound returns how much memory a server may use. It includes twice the values, because a new value exists next to the
// old one, and twice the requests in flight, which are read completely. More memory causes an error in the server,
// instead of exhausting the machine.
func bound(s workload.Spec) int {
	payload := s.Params.Size("payload")
	return memory + 2*payload*(workload.Keys(s.Params)+s.Params.Count("clients")*s.Params.Count("pipeline"))
}

// fill fills a listening server with values. The calling thread must be in its network namespace.
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
