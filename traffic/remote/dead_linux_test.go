package remote

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/board"
)

// BenchmarkDead measures the time between two trials, of workers with a thread each, beside the board.
func BenchmarkDead(b *testing.B) {
	const length = 5 * time.Millisecond
	for _, workers := range []int{1, 4, 32} {
		for _, kind := range []string{"board", "remote"} {
			b.Run(fmt.Sprintf("%s/workers=%d", kind, workers), func(b *testing.B) {
				var turns traffic.Turns
				ends := make([]traffic.Turn, workers)
				if kind == "board" {
					on, err := board.New(traffic.Layout{Workers: workers, Pairs: 1, Cells: b.N})
					testnet.Skip(b, err)
					defer func() {
						for _, f := range on.Files() {
							_ = f.Close() // its threads wait for ever, so the memory stays mapped
						}
					}()
					turns = on
					for i := range ends {
						ends[i] = on
					}
				} else {
					over := New()
					for i := range ends {
						turn, client := pipes(b)
						over.Join(i, client.Call)
						ends[i] = turn
					}
					turns = over
				}
				set(b, turns, workers, 0, length)
				for i, end := range ends {
					go spend(end, i)
				}
				timings, err := turns.Run(b.Context(), make([]int, b.N), one)
				if err != nil {
					b.Fatal(err)
				}
				if len(timings) > 1 {
					timings = timings[1:] // the first one follows the start of the block
				}
				slices.SortFunc(timings, func(x, y traffic.Timing) int { return int(x.Dead - y.Dead) })
				b.ReportMetric(float64(timings[len(timings)/2].Dead)/1e3, "µs-dead")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// pipes serves the turn of a worker over pipes of the kernel, as between processes.
func pipes(b *testing.B) (*Turn, *protocol.Client) {
	b.Helper()
	in, there, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	back, out, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	turn := NewTurn()
	server := protocol.NewServer(in, out, turn.Methods())
	client := protocol.Dial(back, there, nil)
	b.Cleanup(func() {
		_ = client.Close()
		_ = server.Wait(context.Background()) // it has ended
	})
	return turn, client
}

// spend spends the trials of a worker's only thread.
func spend(turn traffic.Turn, worker int) {
	for last := uint32(0); ; {
		ticket, err := turn.Await(worker, last)
		if err != nil {
			panic(err)
		}
		last = ticket
		if _, ok := turn.Cell(ticket); !ok {
			continue
		}
		w, err := turn.Arrive(ticket, traffic.Seat{Worker: worker})
		if err != nil {
			continue
		}
		time.Sleep(time.Duration(w.Close - clock.Now()))
		turn.Leave(ticket, traffic.Seat{Worker: worker})
	}
}
