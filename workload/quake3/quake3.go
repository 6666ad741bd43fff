package quake3

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload quake3.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	mostPlayers = 64

	// patience is the longest time for which a call on a socket blocks, two ticks at HZ=250.
	patience = 8 * time.Millisecond
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name: "quake3",
		Summary: "a game of Quake III Arena: one-way UDP datagrams between players and their server, each timed; figures " +
			"cover both directions (D-ITG Quake3)",
		Reproduces: "the Quake 3 workload of SeCoNetBench (four players) if server=off: it was D-ITG's model of Lang et " +
			"al. (2004), and clients send as D-ITG's do, 145 datagrams a second each, of 64 bytes; nothing comes back. " +
			"The server is nettoll's: D-ITG has none, and the paper was not at hand, so that what it sends (20 snapshots a " +
			"second to each player, log-normal, of 104 bytes on average " +
			"with four) is derived from measurements by the same group (CAIA Technical Report 021220A; the spread from frames " +
			"of Quake II): workload/quake3/model.go has the sources",
		Primary: func(part.Params) string { return "oneway_latency_p50" },
		Trial:   trial,
		Why: "the game is played in real time: the shortest with 200 datagrams in the window, which a median takes, " +
			"and with ten snapshots of the server",
		Warm:  warm,
		Spins: func(part.Params) bool { return false },
		Params: append(part.List{
			{Name: "players", Default: "4", Summary: "clients of the game, in the source's container, 1 to 64; the server, in " +
				"the sink's, sends longer snapshots to more of them", Check: part.CountBetween(1, mostPlayers)},
			{
				Name: "server", Default: "true", Quiet: true, Values: []string{"true", "false"},
				Summary: "the server sends snapshots; off: it only receives, as in D-ITG",
			},
		}, workload.SocketParams()...),
		// a schedule of snapshots for each player
		Memory:  func(p part.Params) int64 { return int64(p.Count("players")) * 256 << 10 },
		Metrics: metricNames(),
	}
}

// warm is the share of a trial that passes before its window opens.
const warm = 0.1

// trial is the default length of a trial.
func trial(p part.Params) time.Duration {
	const least, datagrams = 600 * time.Millisecond, 250 // 200 would be enough on average
	each := 1 / (exponentialShare*exponentialGap + (1-exponentialShare)*pictureGap)
	if p.On("server") {
		each += 1 / tick
	}
	need := datagrams / (1 - warm) / (each * float64(p.Count("players")))
	return max(least, time.Duration(need*float64(time.Second)).Round(100*time.Millisecond))
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	players := s.Params.Count("players")
	lane := func(player int) (*traffic.Schedule, error) { return clientSchedule(s.Seed, player) }
	switch s.Side {
	case workload.Source:
	case workload.Sink:
		lane = func(player int) (*traffic.Schedule, error) { return serverSchedule(s.Seed, player, players) }
	default:
		return nil, fmt.Errorf("open quake3: side %q (valid: source or sink)", s.Side)
	}
	e := &flows.End{
		Hears: s.Side == workload.Sink || s.Params.On("server"), Longest: longest, OwnClock: s.OwnClock,
		StallEvery: int64(s.Stall.Every), StallFor: int64(s.Stall.For),
	}
	sending := players
	if s.Side == workload.Sink && !s.Params.On("server") {
		sending = 0
	}
	for player := range sending {
		schedule, err := lane(player)
		if err != nil {
			return nil, err
		}
		e.Out = append(e.Out, flows.Lane{Schedule: schedule, First: player, Count: 1})
	}
	var err error
	if e.Sockets, err = open(s, players); err != nil {
		return nil, err
	}
	if err := e.Init(); err != nil { // Init has closed them after an error
		return nil, err
	}
	return e, nil
}

// open opens a socket for each player. A player has a port of its own as long as there are some; further players share
// ports, each with another port of the server.
func open(s workload.Spec, players int) ([]sock.Socket, error) {
	clients, servers := s.LocalPorts, s.RemotePorts
	if s.Side == workload.Sink {
		clients, servers = servers, clients
	}
	if players > clients*servers {
		return nil, fmt.Errorf("open quake3: players=%d, but there are only %d ports for them and %d for the server", players,
			clients, servers)
	}
	var local, remote []netip.AddrPort
	for player := range players {
		own, other := player%clients, player/clients
		if s.Side == workload.Sink {
			own, other = other, own
		}
		local = append(local, netip.AddrPortFrom(s.Local.Addr(), s.Local.Port()+uint16(own)))
		remote = append(remote, netip.AddrPortFrom(s.Remote.Addr(), s.Remote.Port()+uint16(other)))
	}
	list, err := sock.UDPShared(local, remote)
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if err = errors.Join(one.Set(s.SocketOptions()), one.SetTimeout(patience)); err != nil {
			for _, one := range list {
				one.Close()
			}
			return nil, err
		}
	}
	return list, nil
}

// Carried implements [workload.Carrier].
func (Workload) Carried(t workload.Trial, i int) (there, back int64) { return t.CarriedMessages(i) }
