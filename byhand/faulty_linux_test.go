package byhand

import (
	"math"
	"net/netip"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// faulty is a workload with faults: its parameter selects what its sink does, and when.
type faulty struct{}

func (faulty) Describe() workload.Description {
	return workload.Description{
		Name: "faulty", Summary: "for tests", Primary: func(part.Params) string { return "latency_p50" },
		Trial: func(part.Params) time.Duration { return time.Second }, Spins: func(part.Params) bool { return false },
		Params: part.List{{Name: "at", Default: "never", Values: []string{
			"never", "open", "prepare", "run", "hang", "hoard", "spin",
		}}},
	}
}

func (faulty) Open(s workload.Spec) (traffic.Endpoint, error) {
	f := &broken{at: s.Params["at"], local: s.Local}
	if f.at == "open" && s.Side == workload.Sink {
		panic("a fault in an opening")
	}
	if s.Side == workload.Source {
		f.at = "never"
	}
	return f, nil
}

func (faulty) Metrics(workload.Trial) workload.Result {
	return workload.Result{Metrics: map[string]float64{}}
}

type broken struct {
	at     string
	local  netip.AddrPort
	hoard  [][]byte
	sample traffic.Sample
}

func (f *broken) Prepare(uint64) {
	f.sample = traffic.Sample{}
	if f.at == "prepare" {
		panic("a fault between trials")
	}
}

func (f *broken) Run(_ uint64, w traffic.Window) {
	switch f.at {
	case "run":
		panic("a fault in a trial")
	case "hang":
		select {}
	case "spin":
		for clock.Now() < math.MaxInt64 { // for ever
		}
	case "hoard":
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			f.hoard = append(f.hoard, b)
		}
	}
	time.Sleep(time.Duration(w.Close - w.Open))
}
func (f *broken) Sample() *traffic.Sample    { return &f.sample }
func (*broken) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (*broken) Facts() (sock.Facts, error)   { return sock.Facts{}, nil }
func (*broken) Close()                       {}
