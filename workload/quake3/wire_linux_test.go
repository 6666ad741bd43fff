package quake3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, Workload{},
		map[string]string{"players": "16"}, // who share ports: there are eight
		map[string]string{"server": "off"})
}

// Without a server, the sink receives everything and sends nothing, as in D-ITG.
func TestWithoutServer(t *testing.T) {
	r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{
		Pairs: 1, Length: 300 * time.Millisecond, Given: map[string]string{"server": "off"},
	})
	trial, result := r.Trial(t)
	if source, sink := trial.Sources[0], trial.Sinks[0]; source.Sent == 0 || sink.Received == 0 || source.Received != 0 ||
		sink.Sent != 0 {
		t.Errorf("players sent %d and received %d, the sink %d and %d; want nothing to come back", source.Sent,
			source.Received, sink.Sent, sink.Received)
	}
	if _, reverse := result.Metrics["goodput_reverse"]; reverse || !(result.Metrics["goodput_forward"] > 0) {
		t.Errorf("goodput both ways: %v", result.Metrics)
	}
}

// players is the number of players in tests that capture packets: the default.
const players = 4

// A flow is one direction of a player.
type flow struct {
	player  int
	reverse bool // from the server
}

// datagram is a captured datagram.
type datagram struct {
	at      time.Time // when the kernel saw it
	payload []byte
}

// due returns its due time, in ns since the opening.
func (d datagram) due() int64 {
	_, _, since := traffic.Header((*[traffic.HeaderSize]byte)(d.payload))
	return since
}

// A tap captures the packets on the link of a place.
type tap int

func newTap(t *testing.T, place workloadtest.Where) tap {
	t.Helper()
	fd := -1
	err := place.Do(func() (err error) {
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all)); err != nil {
			return err
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		link, err := net.InterfaceByName(workloadtest.VethName)
		if err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	return tap(fd)
}

// seen returns the messages captured since the last call. first is the first port of the players.
func (p tap) seen(t *testing.T, first uint16) map[flow][]datagram {
	t.Helper()
	const ip, udp = 20, 8
	all := map[flow][]datagram{}
	buf, control := make([]byte, 2048), make([]byte, 128)
	for {
		n, k, _, _, err := unix.Recvmsg(int(p), buf, control, 0)
		if err != nil {
			return all // there are no more
		}
		if n < ip+udp+traffic.HeaderSize || buf[0] != 0x45 || buf[9] != unix.IPPROTO_UDP {
			continue
		}
		from, to := binary.BigEndian.Uint16(buf[ip:]), binary.BigEndian.Uint16(buf[ip+2:])
		payload := bytes.Clone(buf[ip+udp : ip+int(binary.BigEndian.Uint16(buf[ip+4:]))])
		if _, seq, _ := traffic.Header((*[traffic.HeaderSize]byte)(payload)); seq >= traffic.Marker-1 {
			continue
		}
		f := flow{player: int(from - first)}
		if from-first >= players {
			f = flow{player: int(to - first), reverse: true}
		}
		d := datagram{payload: payload}
		list, err := unix.ParseSocketControlMessage(control[:k])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if m.Header.Type == unix.SCM_TIMESTAMPNS {
				d.at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
			}
		}
		all[f] = append(all[f], d)
	}
}

// game runs a trial and returns the captured packets.
func game(t *testing.T, r *workloadtest.Rig, p tap) map[flow][]datagram {
	t.Helper()
	first, err := r.Sources[0].(*flows.End).Sockets[0].Local()
	if err != nil {
		t.Fatal(err)
	}
	p.seen(t, first.Port())
	if trial, _ := r.Trial(t); trial.Failure() != "" {
		t.Fatal(trial.Failure())
	}
	return p.seen(t, first.Port())
}

// The captured packets fit the source distributions. Lengths and due times do so exactly, and departures as well as a
// machine can: gaps are sorted into classes of 1 ms, of which the one of pictures is from 10.25 to 11.25 ms.
// (Kolmogorov–Smirnov at 1 %, fixed seed; for classes, the test rejects less often than that.)
func TestWireFits(t *testing.T) {
	places := workloadtest.Veth(t)
	r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{Pairs: 1, Length: 1500 * time.Millisecond, Where: places})
	p := newTap(t, places[workload.Sink])
	var gaps, departures, lengths, answers []float64
	// If a busy machine takes the CPU away, packets are sent late, or not before the close. About 900 packets are sent:
	// with a twentieth of a ms for each, their gaps stay in their classes of 1 ms.
	witness.Until(t, witness.Limit{Lost: 50 * time.Millisecond}, func() error {
		gaps, departures, lengths, answers = nil, nil, nil, nil
		for f, list := range game(t, r, p) {
			for i, d := range list {
				if f.reverse {
					answers = append(answers, float64(len(d.payload)))
					continue
				}
				lengths = append(lengths, float64(len(d.payload)))
				if i > 0 {
					gaps = append(gaps, math.Round(float64(d.due()-list[i-1].due())/1e3)/1e6)
					departures = append(departures, d.at.Sub(list[i-1].at).Seconds())
				}
			}
		}
		const want, ticks = 1.5 * players / 0.006874, 1.5 * players * 20
		d := apartInClasses(departures)
		if d <= workloadtest.Critical(len(departures)) && math.Abs(float64(len(lengths))/want-1) < 0.1 &&
			len(answers) == ticks {
			return nil
		}
		return fmt.Errorf("%d gaps between departures are %.4f apart from their distribution, critical value %.4f; "+
			"%d packets of clients, want some %.0f; %d of the server, want %.0f",
			len(departures), d, workloadtest.Critical(len(departures)), len(lengths), want, len(answers), ticks)
	})
	for name, c := range map[string]struct {
		sample []float64
		cdf    func(float64) float64
		fits   bool
	}{
		"client gaps": {gaps, gapCDF, true},
		"client lengths": {
			lengths, workloadtest.Whole(distuv.Normal{Mu: 64.151757, Sigma: 3.2035755}.CDF),
			true,
		},
		"server lengths":                   {answers, workloadtest.Whole(serverLengths(players).CDF), true},
		"client gaps without the pictures": {gaps, distuv.Exponential{Rate: 1 / 0.006874}.CDF, false},
		"server lengths as the clients'":   {answers, workloadtest.Whole(clientLengths().CDF), false},
	} {
		if d := workloadtest.Apart(c.sample, c.cdf); (d <= workloadtest.Critical(len(c.sample))) != c.fits {
			t.Errorf("%d %s: %.4f apart, critical value %.4f, want it to fit: %v", len(c.sample), name, d,
				workloadtest.Critical(len(c.sample)), c.fits)
		}
	}
}

// apartInClasses returns the statistic of a client's gaps at the edges of classes of 1 ms.
func apartInClasses(gaps []float64) float64 {
	d := 0.0
	for edge := 0.00125; edge < 0.05; edge += 0.001 {
		below := 0
		for _, gap := range gaps {
			if gap <= edge {
				below++
			}
		}
		d = max(d, math.Abs(float64(below)/float64(len(gaps))-gapCDF(edge)))
	}
	return d
}

// Two stacks carry the same packets, byte for byte: numbers, due times and contents, in every trial.
func TestSameOnTwoStacks(t *testing.T) {
	var stacks [2][]map[flow][]datagram
	for i := range stacks {
		places := workloadtest.Veth(t)
		r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{Pairs: 1, Length: 400 * time.Millisecond, Where: places})
		p := newTap(t, places[workload.Sink])
		for range 2 {
			stacks[i] = append(stacks[i], game(t, r, p))
		}
	}
	for trial := range stacks[0] {
		one, other := stacks[0][trial], stacks[1][trial]
		if len(one) != 2*players || !maps.EqualFunc(one, other, func(x, y []datagram) bool {
			same := min(len(x), len(y)) // a busy machine may send the last packets of a trial too late
			return slices.EqualFunc(x[:same], y[:same], func(x, y datagram) bool { return bytes.Equal(x.payload, y.payload) })
		}) {
			t.Errorf("trial %d: two stacks carried other packets: %s and %s", trial, sizes(one), sizes(other))
		}
	}
	for f, list := range stacks[0][0] {
		if len(list) > 1 && !f.reverse &&
			slices.EqualFunc(list, stacks[0][1][f], func(x, y datagram) bool { return x.due() == y.due() }) {
			t.Errorf("flow %+v has the same arrivals in each trial", f)
		}
	}
}

func sizes(all map[flow][]datagram) (text string) {
	for f, list := range all {
		text += fmt.Sprintf("%+v: %d; ", f, len(list))
	}
	return text
}
