package board

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/shm"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/turntest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// Both ends have mappings of their own, like two processes. The threads of a test wait for ever, so nothing is
// unmapped.
func ends(t *testing.T, l traffic.Layout, m traffic.Meters) (*Board, *Board) {
	t.Helper()
	turns, err := New(l)
	testnet.Skip(t, err)
	turn, err := Open(turns.Files(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = turns.file.Close() })
	return turns, turn
}

func TestBoard(t *testing.T) {
	turntest.Conformance(t, 10*time.Millisecond, func(t *testing.T, l traffic.Layout) (traffic.Turns, turntest.Ends) {
		turns, turn := ends(t, l, traffic.Meters{})
		return turns, turntest.Same(turn)
	})
}

// The meters are read when a trial opens and when it ends.
func TestMeters(t *testing.T) {
	var softirqd, probe atomic.Int64
	turns, turn := ends(t, traffic.Layout{Workers: 1, Pairs: 1, Cells: 1}, traffic.Meters{
		Softirqd: softirqd.Load, Probe: probe.Load,
	})
	if err := turns.SetCell(0, traffic.CellPlan{Workers: []int{0}, Threads: []int{1}}); err != nil {
		t.Fatal(err)
	}
	softirqd.Store(1000)
	probe.Store(50)
	go func() {
		seat := traffic.Seat{}
		ticket, err := turn.Await(0, 0)
		if err != nil {
			t.Error(err)
		}
		if _, err := turn.Arrive(ticket, seat); err != nil {
			t.Error(err)
		}
		softirqd.Add(7)
		probe.Add(3)
		turn.Leave(ticket, seat)
	}()
	timings, err := turns.Run(t.Context(), []int{0}, func(int) int { return 1 })
	if err != nil || timings[0].Softirqd != 7 || timings[0].Probe != 3 {
		t.Errorf("%v, %+v, want 7 and 3 ns", err, timings)
	}
}

func TestOpenRefuses(t *testing.T) {
	empty, err := shm.Create("empty", 64)
	testnet.Skip(t, err)
	defer empty.Close()
	other, err := shm.Create("other", 4096)
	testnet.Skip(t, err)
	defer other.Close()
	for _, tt := range []struct {
		files map[string]*os.File
		want  string
	}{
		{nil, `no inherited file "board"`},
		{map[string]*os.File{"board": empty}, "64 bytes are not enough"},
		{map[string]*os.File{"board": other}, "the memory holds no board"},
	} {
		if _, err := Open(tt.files, traffic.Meters{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
