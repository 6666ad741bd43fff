package video

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, Workload{}, map[string]string{"buffer": "20ms"})
}

// Ten videos have 66.7 Mbit/s, to within 1 %, and play without a stall over a path with 100 Mbit/s; over a path with 40
// Mbit/s they do not.
func TestTokenBucket(t *testing.T) {
	places := workloadtest.Veth(t)
	r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{Pairs: 1, Length: 700 * time.Millisecond, Where: places})
	for _, c := range []struct {
		rate  uint64 // bit/s; 0: no limit
		right func(workload.Result) bool
	}{
		{0, plays},
		{100e6, plays},
		{40e6, func(result workload.Result) bool {
			m := result.Metrics
			// Streams share the path unevenly: one may be starved from its first message on.
			return m["goodput"] > 30e6 && m["goodput"] < 40e6*1.02 && m["stall_share"] > 0.05 &&
				(m["stalls"] > 0 && slices.Contains(result.Warnings, stoodStill) ||
					slices.Contains(result.Warnings, notStarted))
		}},
		{0, plays}, // data that did not arrive does not reach another trial
	} {
		bucket(t, places[workload.Source], c.rate/8)
		trials := 1
		if c.rate == 40e6 { // nor does it harm another trial
			trials = 2
		}
		for range trials {
			witness.Until(t, workloadtest.Borne(), func() error { // the bucket's queue holds 10 ms
				trial, result := r.Trial(t)
				m := result.Metrics
				said := fmt.Sprintf("%d Mbit/s: %.2f Mbit/s, %g stalls, %.3f of the time, start after %.3f s, %q, %q", c.rate/1e6,
					m["goodput"]/1e6, m["stalls"], m["stall_share"],
					m["startup_delay"], result.Warnings, trial.Failure())
				t.Log(said)
				if !c.right(result) {
					return errors.New(said)
				}
				return nil
			})
		}
	}
}

// plays reports whether videos played as they should.
func plays(result workload.Result) bool {
	m := result.Metrics
	return math.Abs(m["goodput"]/(10*meanRate)-1) < 0.01 && m["stalls"] == 0 && m["stall_share"] == 0 && m["loss"] == 0 &&
		m["startup_delay"] >= 0.1 && m["startup_delay"] < 0.15 // the slowest has a message in 30 ms
}

// bucket gives a place's link a token bucket with a rate in bytes a second, or removes it.
func bucket(t *testing.T, place workloadtest.Where, rate uint64) {
	t.Helper()
	const burst, queue = 64 << 10, 128 << 10 // bytes
	err := place.Do(func() error {
		link, err := netlink.LinkByName(workloadtest.VethName)
		if err != nil {
			return err
		}
		q := &netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
			},
			Rate: rate, Limit: queue, Buffer: netlink.Xmittime(max(rate, 1), burst),
		}
		if rate > 0 {
			return netlink.QdiscReplace(q)
		}
		_ = netlink.QdiscDel(q) // there may be none
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hears implements flows.Hearer with a function.
type hears func(*flows.Message)

func (h hears) Heard(m *flows.Message) { h(m) }

// message is a received message.
type message struct {
	seq  uint64
	size int
	due  int64
}

// Two stacks carry the same messages, with the same numbers, lengths and due times, on each connection and in every
// trial. They are the drawn ones.
func TestSameOnTwoStacks(t *testing.T) {
	const videos, trials = 10, 2
	var stacks [2][trials][][]message
	for i := range stacks {
		r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{
			Pairs: 1, Length: 400 * time.Millisecond, Where: workloadtest.Veth(t),
		})
		s := r.Sinks[0].(*sink)
		for trial := range trials {
			streams := map[int][]message{}
			s.Hearer = hears(func(m *flows.Message) { streams[m.Flow] = append(streams[m.Flow], message{m.Seq, m.Size, m.Due}) })
			if trial, _ := r.Trial(t); trial.Failure() != "" {
				t.Fatal(trial.Failure())
			}
			if len(streams) != videos ||
				slices.ContainsFunc(slices.Collect(maps.Values(streams)), func(list []message) bool { return len(list) < 2 }) {
				t.Fatalf("trial %d: less than two messages of some video", trial)
			}
			// The assignment of videos to connections differs between stacks: they are matched by their rates.
			stacks[i][trial] = slices.SortedFunc(maps.Values(streams), func(x, y []message) int {
				return cmp.Compare(x[1].due, y[1].due)
			})
		}
	}
	for trial := range trials {
		one, other := stacks[0][trial], stacks[1][trial]
		drawn := Draw(0, uint64(trial), videos)
		slices.SortFunc(drawn, func(x, y Video) int { return cmp.Compare(y.Rate, x.Rate) })
		for i := range videos {
			same := min(len(one[i]), len(other[i])) // a busy machine may send the last messages of a trial too late
			if !slices.Equal(one[i][:same], other[i][:same]) {
				t.Errorf("trial %d: two stacks carried other messages of a video: %d and %d", trial, len(one[i]), len(other[i]))
			}
			for n, m := range one[i] {
				if want := float64(n) * payload * 8 / drawn[i].Rate * 1e9; m.seq != uint64(n) || m.size != payload ||
					math.Abs(float64(m.due)-want) > 1 {
					t.Fatalf("trial %d, video %d: message %d is %+v, want one of %d bytes due after %.0f ns", trial, i, n, m, payload,
						want)
				}
			}
		}
	}
	if slices.Equal(stacks[0][0][0], stacks[0][1][0]) {
		t.Error("two trials have the same videos")
	}
}

// A video that cannot start reports the reason, and soon.
func TestCannotStart(t *testing.T) {
	workloadtest.Loopback(t)
	params, err := Workload{}.Describe().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func() netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), workloadtest.FreePort())
	}
	start := time.Now()
	e, err := Workload{}.Open(workload.Spec{
		Params: params, Side: workload.Source, Local: at(), Remote: at(), LocalPorts: 1, RemotePorts: 1,
	})
	if err == nil {
		e.Close()
		t.Fatal("videos start without anybody to show them")
	}
	if !strings.Contains(err.Error(), "no video can start: only 0 of 10 connections") ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %q", err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v to say so", took)
	}
}

// If a sink goes away between two trials, the following trials fail with the reason, by their deadline.
func TestSinkGone(t *testing.T) {
	r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{Pairs: 1, Length: 200 * time.Millisecond})
	r.Trial(t)
	r.Sinks[0].Close()
	start := time.Now()
	for range 2 { // the second finds the connections gone
		timing, err := r.Block(t.Context())
		if err != nil || !timing.Done {
			t.Fatalf("%v, %+v", err, timing)
		}
		if c, ok := r.Sources[0].(*source); ok {
			c.Collect()
		}
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("two trials without a sink took %v", took)
	}
	if got := r.Sources[0].Sample().Failure; !strings.Contains(got, "connection refused") {
		t.Errorf("failure %q, want that connections are refused", got)
	}
}
