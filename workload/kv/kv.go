package kv

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload kv.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest     = 1 << 20 // bytes of a value
	mostClients = 1000
	mostAhead   = 1000 // requests in flight on a connection
	mostKeys    = 1_000_000

	// mostValues is the largest total size of the values of all used keys, in bytes.
	mostValues = 64 << 20

	// mostFilled is the largest number of keys of a server that is filled before each trial. For that many,
	// redis-server took 0.3 to 0.6 s on a busy machine, out of the available 0.9 s (prepareLimit in traffic/dialogue).
	mostFilled = 100_000

	// mostWaiting is the largest number of bytes of values that all clients together may have in flight: a server keeps
	// them while it waits for the rest of them, or for room to send them.
	mostWaiting = 256 << 20

	closed   = "closed"
	auto     = "auto"
	embedded = "embedded"

	opGet   = "get"
	opSet   = "set"
	opMixed = "mixed"

	settled = 100 * time.Millisecond // as for tcp-rr

	// slowly is the number of bytes of values a second on which the length of a trial is based.
	slowly = 1e9
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name: "kv",
		Summary: "values of a key-value store set and read by many clients at once (RESP, the protocol of Redis; " +
			"redis-benchmark)",
		Reproduces: "the table of Alibaba's TBase (paper 003): QPS (transaction_rate), mean and 99th percentile of " +
			"response times, CPU by mode (cpu_user, cpu_system, and cpu_softirq where it is " +
			"probed), for values of 1 KB to 512 KB: operation=[get, set], payload=[1KiB, 64KiB, 128KiB, 256KiB, 512KiB]. " +
			"TBase itself is Ant's own",
		Primary: func(p part.Params) string {
			// latency would measure the queue of requests
			if !workload.Scheduled(p) && (p.Count("clients") > 1 || p.Count("pipeline") > 1) {
				return "transaction_rate"
			}
			return "latency_p50"
		},
		Why: "same packets, wake-ups and length as tcp-rr; a trial has room for 250 values at 1 GB/s; at a rate, a median " +
			"needs 200 requests",
		Warm:  workload.TransactionWarm,
		Trial: func(p part.Params) time.Duration { return workload.TransactionTrial(p, shortest(p)) },
		Spins: func(part.Params) bool { return false },
		Params: slices.Concat(part.List{
			{Name: "payload", Default: "1024", Summary: "bytes of a value, 1 to 1MiB", Check: part.SizeBetween(1, largest)},
			{
				Name: "operation", Default: opGet, Summary: "operations: get, set, or mixed (both)",
				Values: []string{opGet, opSet, opMixed},
			},
			{Name: "sets", Default: "50%", Quiet: true, Summary: "share of sets among mixed operations (50%: workload A of " +
				"YCSB, Cooper et al. 2010, table 2; 5%: workload B)", Check: part.ShareBetween(0, 1)},
			{
				Name: "clients", Default: "50", Summary: "connections of a pair, 1 to 1000; one thread drives them all",
				Check: part.CountBetween(1, mostClients),
			},
			{
				Name: "pipeline", Default: "1", Quiet: true, Summary: "requests in flight on a connection, 1 to 1000",
				Check: part.CountBetween(1, mostAhead),
			},
			{Name: "keys", Default: auto, Quiet: true, Summary: "keys in the store, 1 to 1000000, with at most 64MiB of " +
				"values; auto: 1000, or as many as fit 16MiB of values", Check: keysOrAuto},
			{
				Name: "server", Default: embedded, Quiet: true, Summary: "server program: nettoll's own server, or the real " +
					"redis-server, restarted and filled before each trial; installed: redis if it is installed, otherwise embedded",
				Values: append(servers(), program.Installed), Check: redisNeeded().Choose(redis, embedded),
			},
		},
			workload.ScheduleParams(closed, "requests per second of a pair, sent when they are due or, if all clients have "+
				"their limit in flight, as soon as one has room; closed: each follows a response"),
			workload.StreamParams()),
		Refuse: refuse,
		Programs: func(p part.Params, side workload.Side) []program.Needed {
			if side == workload.Sink && p["server"] == redis {
				return []program.Needed{redisNeeded()}
			}
			return nil
		},
		Memory: storeMemory,
		Metrics: slices.Concat(workload.DialogueMetrics(), workload.CPUMetrics(),
			workload.DurationMetrics(traffic.Latency, traffic.Service, traffic.Departure)),
	}
}

// shortest returns the length of a trial.
func shortest(p part.Params) time.Duration {
	const values = 250 / (1 - workload.TransactionWarm)
	return max(settled, time.Duration(values*float64(p.Size("payload"))/slowly*1e9))
}

// storeMemory returns the memory of the embedded server: each value, and the noise from which it was made; the table,
// which is at least half empty and is copied when it grows; and its clients' buffers.
func storeMemory(p part.Params) int64 {
	const perKey = 8*unsafe.Sizeof(slot{}) + 64 // including the key
	payload := p.Size("payload")
	return int64(workload.Keys(p))*int64(2*payload+int(perKey)) + workload.DialogueMemory(p, payload, payload)
}

func keysOrAuto(s string) (string, error) {
	if s == auto {
		return s, nil
	}
	s, err := part.CountBetween(1, mostKeys)(s)
	if err != nil {
		return "", fmt.Errorf("%w, or %s", err, auto)
	}
	return s, nil
}

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	if err := workload.Unscheduled(p); err != nil {
		return err
	}
	switch {
	case p["sizes"] != "constant":
		return fmt.Errorf("sizes=%s: all values have the size of the payload (valid: constant)", p["sizes"])
	case workload.Keys(p) > 1 && workload.Keys(p)*p.Size("payload") > mostValues:
		return fmt.Errorf("keys=%s: values of %s bytes need more than %d bytes of memory (valid: at most %d keys)",
			p["keys"], p["payload"], mostValues, mostValues/p.Size("payload"))
	case p["server"] != embedded && workload.Keys(p) > mostFilled:
		return fmt.Errorf("keys=%s: server %s is filled before each trial (valid: at most %d keys)", p["keys"], p["server"],
			mostFilled)
	case p.Count("clients")*p.Size("payload") > mostWaiting:
		return fmt.Errorf("clients=%s: responses of %s bytes can need more than %d bytes of memory (valid: at most %d "+
			"clients)",
			p["clients"], p["payload"], mostWaiting, mostWaiting/p.Size("payload"))
	case p["operation"] != opMixed && p["sets"] != "50%":
		return fmt.Errorf("sets=%s has no effect with operation=%s (valid: operation=%s)", p["sets"], p["operation"], opMixed)
	}
	return nil
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	switch s.Side {
	case workload.Source:
		return newSource(s)
	case workload.Sink:
		return newServer(s)
	}
	return nil, fmt.Errorf("open kv: side %q (valid: source or sink)", s.Side)
}

func newSource(s workload.Spec) (traffic.Endpoint, error) {
	schedule, err := s.Schedule(1, 1, 1) // only of times
	if err != nil {
		return nil, err
	}
	a := newAsker(s.Params, s.Seed)
	spec := dialogue.ClientSpec{
		Local: s.Local, Remote: s.Remote, Options: s.SocketOptions(),
		Connections: s.Params.Count("clients"), Pipeline: s.Params.Count("pipeline"), Schedule: schedule,
		Asks: dialogue.Asks{Asker: a, Explain: a.explain, Head: headLimit},
	}
	if s.Params["server"] == embedded {
		spec.Farewell, spec.Leave = []byte(farewell), len(ok)
	} else {
		spec.Fresh, spec.Loads = true, uint64(workload.Keys(s.Params))
		spec.Load = dialogue.Asks{Asker: &loader{a}, Explain: a.explain, Head: headLimit}
	}
	return dialogue.NewClient(spec)
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutDialogue(&r, t.Params.Rate("rate"), t.Params.Size("payload"))
	return r
}

// lengthOf returns the number of digits of a number.
func lengthOf(n int) int { return len(strconv.Itoa(n)) }

// Carried implements [workload.Carrier]. A connection has as many requests in flight as the pipeline is deep. Values go
// in one direction or the other; for mixed operations, their numbers are unknown.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	e := workload.Exchanged{Together: t.Params.Count("pipeline")}
	switch t.Params["operation"] {
	case opSet:
		e.Request = t.Params.Size("payload")
	case opGet:
		e.Response = t.Params.Size("payload")
	}
	return t.CarriedExchange(i, e)
}
