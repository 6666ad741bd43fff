package labtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
	protocol "github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
)

// worker answers like a worker whose traffic has no faults.
type worker struct {
	id     string
	number int // in the turn

	mu    sync.Mutex
	done  chan struct{}
	ended bool
	err   error
	open  []protocol.EndpointSpec
}

// Call answers the methods of [protocol].
func (w *worker) Call(ctx context.Context, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return fmt.Errorf("call %q: worker %q has ended", method, w.id)
	}
	answer, err := w.answer(method, params)
	if err != nil || result == nil {
		return err
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, result)
}

// answer returns the worker's answer to a call, or an error.
func (w *worker) answer(method string, params any) (any, error) {
	switch p := params.(type) {
	case protocol.BeginParams:
		w.number = p.Worker
		return nil, nil
	case protocol.CongestionParams:
		return p.Candidates, nil
	case protocol.OpenParams:
		w.open = p.Endpoints
		return nil, nil
	case []proof.Try: // every try has the expected result
		seen := make([]proof.Seen, len(p))
		for i, t := range p {
			seen[i] = proof.Seen{Answered: t.Answered, More: t.More, Detail: "no answer"}
		}
		return seen, nil
	case protocol.CollectParams:
		return w.samples(p.Visits)
	}
	if method == protocol.ReachOpen {
		return nil, errors.New("no packets are sent in a fake lab")
	}
	if method == protocol.Facts {
		return []protocol.EndpointFacts{}, nil
	}
	return nil, nil
}

// Values of each end of each trial.
const (
	packets = 1000
	each    = 10_000 // ns
)

// samples makes up a sample for each endpoint of some visits.
func (w *worker) samples(visits []int) ([]protocol.CellSamples, error) {
	h := traffic.NewHistogram()
	if err := h.RecordValues(each, packets); err != nil {
		return nil, err
	}
	latencies, err := measure.EncodeHistogram(h)
	if err != nil {
		return nil, err
	}
	all := []protocol.CellSamples{}
	for _, visit := range visits {
		for _, e := range w.open {
			if e.Visit != visit {
				continue
			}
			if len(all) == 0 || all[len(all)-1].Cell != e.Cell {
				all = append(all, protocol.CellSamples{Cell: e.Cell})
			}
			c := &all[len(all)-1]
			c.Pairs, c.Side = append(c.Pairs, e.Spec.Pair), append(c.Side, e.Spec.Side)
			c.Samples = append(c.Samples, traffic.Sample{
				Sent: packets, Received: packets, Total: packets, Bytes: 64 * packets, CPU: 1e6, Span: packets * each,
			})
			if e.Spec.Side == workload.Source {
				c.Histograms[traffic.Latency] = latencies
			}
		}
	}
	return all, nil
}

// Done returns a channel that is closed when the worker has ended.
func (w *worker) Done() <-chan struct{} { return w.done }

// Err returns why the worker has ended; nil if it was asked to.
func (w *worker) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Kill ends the worker.
func (w *worker) Kill() error {
	w.end(nil)
	return nil
}

func (w *worker) end(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended, w.err = true, why
		close(w.done)
	}
}
