package dns

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload dns.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	udp, tcp = "udp", "tcp"
	none     = "none"
	closed   = "closed"

	mostClients   = 128 // a listening socket keeps that many until they are accepted (sock.Socket.Listen)
	mostInFlight  = 1024
	mostAddresses = 64
	leastEDNS     = 512 // RFC 6891, section 6.2.3

	settled = 100 * time.Millisecond // as for udp-rr
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:    "dns",
		Summary: "DNS queries for names of a cluster's services over UDP or TCP; every answer is checked and timed (dnsperf)",
		Reproduces: "none of the papers; like dnsperf with nettoll's own name server, whose clients ask for names such as " +
			"svc-0017.default.svc.cluster.local. Over UDP an answer that takes more than 200 ms counts as lost: resolvers " +
			"would wait 5 s before they retry (resolv.conf(5)), which latency does not include",
		Primary: func(p part.Params) string {
			if !workload.Scheduled(p) && outstanding(p) > 1 { // latency would measure the queue of queries
				return "transaction_rate"
			}
			return "latency_p50"
		},
		Why:   "same packets, wake-ups and length as udp-rr and tcp-rr; at a rate, a median needs 200 queries",
		Warm:  workload.TransactionWarm,
		Trial: func(p part.Params) time.Duration { return workload.TransactionTrial(p, settled) },
		Spins: func(part.Params) bool { return false },
		Params: slices.Concat(part.List{
			{Name: "transport", Default: udp, Summary: "udp, or tcp on persistent connections", Values: []string{udp, tcp}},
			{
				Name: "type", Default: "A", Quiet: true, Summary: "A: IPv4 addresses; AAAA: IPv6 addresses",
				Values: []string{"A", "AAAA"},
			},
			{
				Name: "clients", Default: "1", Quiet: true,
				Summary: "ports (udp) or connections (tcp) of a pair, 1 to 128; one thread drives them all",
				Check:   part.CountBetween(1, mostClients),
			},
			{
				Name: "in-flight", Default: "1", Quiet: true, Summary: "queries of a client in flight, 1 to 1024: 1 measures " +
					"latency, more the rate that path and server can carry",
				Check: part.CountBetween(1, mostInFlight),
			},
			{
				Name: "names", Default: "100", Quiet: true,
				Summary: "number of services, 1 to 10000, queried in turn in an order given by the seed",
				Check:   part.CountBetween(1, workload.MostServices),
			},
			{
				Name: "addresses", Default: "1", Quiet: true,
				Summary: "addresses per service, 1 to 64; more than one as for a headless service",
				Check:   part.CountBetween(1, mostAddresses),
			},
			{Name: "edns", Default: none, Quiet: true, Summary: "largest answer over UDP that clients announce (EDNS0), 512 " +
				"to 4096 bytes, such as 1232; none: no announcement, which means 512", Check: ednsOr()},
			{Name: "rate", Default: closed, Quiet: true, Summary: "query rate of a pair: closed: one per answer; or a number " +
				"per second, such as 10k/s, regardless of queries in flight", Check: part.RateOr(closed)},
			arrivals(),
		}, workload.StreamParams()),
		Refuse: refuse,
		Memory: func(p part.Params) int64 { return workload.DialogueMemory(p, 0, messageMax) },
		Metrics: slices.Concat(
			[]string{
				"transaction_rate", "transaction_rate_per_pair", "loss", "errors", "cpu_per_packet", "cpu_per_transaction",
				"retransmits", "backlog", "planted",
			},
			workload.DurationMetrics(traffic.Latency, traffic.Service, traffic.Departure),
			workload.CPUMetrics(),
		),
	}
}

// ednsOr returns the check of the parameter edns.
func ednsOr() func(string) (string, error) {
	size := part.SizeBetween(leastEDNS, ednsLimit)
	return func(s string) (string, error) {
		if s == none {
			return s, nil
		}
		v, err := size(s)
		if err != nil {
			return "", fmt.Errorf("%w, or %s", err, none)
		}
		return v, nil
	}
}

// arrivals returns the schedule parameter of that name; the length of queries is fixed.
func arrivals() part.Param {
	list := workload.ScheduleParams(closed, "")
	return list[slices.IndexFunc(list, func(p part.Param) bool { return p.Name == "arrivals" })]
}

// kind returns the type of the requested records.
func kind(p part.Params) uint16 {
	if p["type"] == "AAAA" {
		return typeAAAA
	}
	return typeA
}

// answerSize returns the length of answers in bytes.
func answerSize(kind uint16, addresses int, edns bool) int {
	n := headerSize + questionAt + 4 + addresses*recordSize(kind)
	if edns {
		n += optSize
	}
	return n
}

// outstanding returns the number of queries of a pair in flight at a time without a schedule.
func outstanding(p part.Params) int { return p.Count("clients") * p.Count("in-flight") }

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	most, edns := plainLimit, p["edns"] != none
	if edns {
		most = p.Size("edns")
	}
	size := answerSize(kind(p), p.Count("addresses"), edns)
	switch {
	case p["transport"] == udp && size > most:
		return fmt.Errorf("an answer with addresses=%s has %d bytes, but its datagram holds only %d (hint: use edns=1232 "+
			"or more, fewer addresses, or transport=tcp)", p["addresses"], size, most)
	case p["transport"] == tcp && edns:
		return fmt.Errorf("edns=%s has no effect over tcp (valid: transport=udp)", p["edns"])
	case p["transport"] == udp && p["congestion"] != "auto":
		return fmt.Errorf("congestion=%s needs transport=tcp", p["congestion"])
	case p.Count("in-flight") > 1 && workload.Scheduled(p):
		return fmt.Errorf("in-flight=%s has no effect at a rate (valid: rate=closed)", p["in-flight"])
	case !workload.Scheduled(p) && p["arrivals"] != "constant":
		return fmt.Errorf("arrivals=%s needs a rate", p["arrivals"])
	}
	return nil
}

// newAsker makes the asker of a spec.
func (s side) newAsker() (*asker, error) {
	announced := 0
	if s.Params["edns"] != none {
		announced = s.Params.Size("edns")
	}
	return newAsker(s.Params.Count("names"), s.Params.Count("addresses"), kind(s.Params), announced, s.Seed)
}

// schedule makes the schedule of a spec; nil if there is none.
func (s side) schedule(size int) (*traffic.Schedule, error) {
	if !workload.Scheduled(s.Params) {
		return nil, nil //nolint:nilnil // no rate, no schedule
	}
	return traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: s.Params.Rate("rate"), Arrivals: s.Params["arrivals"], Sizes: "constant", Size: size, Least: size, Most: size,
		Seed: s.Seed,
	})
}

// side is one end of a pair.
type side struct{ workload.Spec }

func (s side) zone() *zone {
	return &zone{names: s.Params.Count("names"), addresses: s.Params.Count("addresses")}
}

// Open implements [workload.Workload].
func (Workload) Open(spec workload.Spec) (traffic.Endpoint, error) {
	s := side{spec}
	stream := s.Params["transport"] == tcp
	switch {
	case s.Side == workload.Source && stream:
		return s.streamSource()
	case s.Side == workload.Source:
		return s.source()
	case s.Side == workload.Sink && stream:
		return s.streamSink()
	case s.Side == workload.Sink:
		return s.sink()
	}
	return nil, fmt.Errorf("open dns: side %q (valid: source or sink)", s.Side)
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	rate := t.Params.Rate("rate")
	if t.Params["transport"] == udp {
		t.PutExchange(&r, rate)
	} else {
		cpu, total := t.PutTransactions(&r, "transaction_rate", rate)
		if total > 0 {
			r.Metrics["cpu_per_transaction"] = cpu / float64(total)
		}
		var resent int64
		for _, s := range slices.Concat(t.Sources, t.Sinks) {
			resent += s.Counts[traffic.CountResent]
		}
		r.Metrics["retransmits"] = float64(resent)
	}
	var wrong, answers int64
	for _, s := range t.Sources {
		wrong += s.Errors
		answers += s.Received + s.Errors
	}
	if answers > 0 {
		r.Metrics["errors"] = float64(wrong) / float64(answers)
	}
	if wrong > 0 {
		r.Warnings = append(r.Warnings,
			"some answers report a failure or have wrong content: look for the cause with nettoll lab up")
	}
	return r
}

// Carried implements [workload.Carrier]. A query and its answer are a datagram each. A stream holds as many of each as
// a client has in flight; the program of a driver may have those of all clients on one stream.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	if t.Params["transport"] == udp {
		return t.Sources[i].Received, t.Sources[i].Received
	}
	e := workload.Exchanged{Together: t.Params.Count("in-flight")}
	if t.Sources[i].Window > 0 { // a program chose it
		e.Together = outstanding(t.Params)
	}
	return t.CarriedExchange(i, e)
}
