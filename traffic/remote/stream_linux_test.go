package remote

import (
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/turntest"
)

func TestMain(m *testing.M) {
	// All workers of a test are in this process, and their threads hold a P while they wait for an opening: a garbage
	// collection would stop all others until they have it.
	runtime.GOMAXPROCS(100)
	debug.SetGCPercent(-1)
	if serveAlone() {
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "10") // these tests do little but wait; the flag exists
	testnet.Main(m)
}

// A delay says how long the next chunk is on its way; nil: no time.
type delay func() time.Duration

func constant(d time.Duration) delay { return func() time.Duration { return d } }

// between returns a delay with jitter. It is not called by two goroutines.
func between(least, most time.Duration, seed uint64) delay {
	r := rand.New(rand.NewPCG(seed, 0))
	return func() time.Duration { return least + time.Duration(r.Int64N(int64(most-least))) }
}

// journey is when a frame was sent and when it arrived.
type journey struct{ sent, arrived int64 }

// line is one direction of a stream. What was sent arrives in order, after its delay.
type line struct {
	delay delay
	queue chan chunk
	in    *io.PipeReader // at the far end
	out   *io.PipeWriter

	mu       sync.Mutex
	journeys []journey
}

type chunk struct {
	sent int64
	body []byte
}

func newLine(d delay) *line {
	l := &line{delay: d, queue: make(chan chunk, 1000)}
	l.in, l.out = io.Pipe()
	go func() {
		for c := range l.queue {
			if l.delay != nil {
				time.Sleep(time.Duration(c.sent + int64(l.delay()) - clock.Now()))
			}
			l.mu.Lock()
			l.journeys = append(l.journeys, journey{c.sent, clock.Now()})
			l.mu.Unlock()
			if _, err := l.out.Write(c.body); err != nil {
				return
			}
		}
	}()
	return l
}

// Write sends a frame: the protocol writes each one at once.
func (l *line) Write(b []byte) (int, error) {
	l.queue <- chunk{clock.Now(), append([]byte{}, b...)}
	return len(b), nil
}

// Close ends the line at once.
func (l *line) Close() error { return l.out.Close() }

// peer is a worker in this process, at the other end of a stream.
type peer struct {
	turn        *Turn
	client      *protocol.Client
	there, back *line
}

// cut ends the stream, as the death of its process does.
func (p *peer) cut() {
	_ = p.there.Close()
	_ = p.back.Close()
}

// journeys returns all frames so far, of both directions.
func (p *peer) journeys() (all []journey) {
	for _, l := range []*line{p.there, p.back} {
		l.mu.Lock()
		all = append(all, l.journeys...)
		l.mu.Unlock()
	}
	return all
}

// connect serves the turn of a worker over a stream.
func connect(t testing.TB, there, back delay) *peer {
	t.Helper()
	p := &peer{turn: NewTurn(), there: newLine(there), back: newLine(back)}
	p.turn.name = "" // it stands for another machine
	server := protocol.NewServer(p.there.in, p.back, p.turn.Methods())
	p.client = protocol.Dial(p.back.in, p.there, func(string, json.RawMessage) {})
	t.Cleanup(func() {
		_ = p.client.Close()
		p.cut()
		_ = server.Wait(t.Context()) // it has ended
	})
	return p
}

// meet connects workers, whose streams have these delays.
func meet(t testing.TB, number int, there, back func(worker int) delay) (*Turns, []*peer) {
	t.Helper()
	turns, peers := New(), make([]*peer, number)
	var joined sync.WaitGroup
	for i := range peers {
		peers[i] = connect(t, there(i), back(i))
		joined.Go(func() { turns.Join(i, peers[i].client.Call) })
	}
	joined.Wait()
	return turns, peers
}

func same(d delay) func(int) delay { return func(int) delay { return d } }

func TestTurn(t *testing.T) {
	const length = 500 * time.Millisecond // a tenth of it is how late a busy machine may wake a thread
	for _, c := range []struct {
		name        string
		there, back func(worker int) delay
	}{
		{"at once", same(nil), same(nil)},
		{"one way slow", same(constant(30 * time.Millisecond)), same(constant(time.Millisecond))},
		{"other way slow", same(constant(time.Millisecond)), same(constant(30 * time.Millisecond))},
		{"jitter", func(worker int) delay {
			return between(time.Millisecond, 30*time.Millisecond, uint64(worker))
		}, func(worker int) delay {
			return between(time.Millisecond, 30*time.Millisecond, uint64(worker)+10)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			turntest.Conformance(t, length, func(t *testing.T, l traffic.Layout) (traffic.Turns, turntest.Ends) {
				turns, peers := meet(t, l.Workers, c.there, c.back)
				return turns, func(worker int) traffic.Turn { return peers[worker].turn }
			})
		})
	}
}
