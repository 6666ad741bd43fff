package http

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload http.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest = 1 << 20 // bytes
	// nginx has 1024 descriptors on a machine with Debian's defaults (RLIMIT_NOFILE), some of them for itself
	mostClients = 1000
	closed      = "closed"
	embedded    = "embedded"
	keepAlive   = "keep-alive"
	renewed     = "new"

	settled = 200 * time.Millisecond // as for tcp-crr

	// slowly is the number of bytes of pages a second on which the length of a trial is based.
	slowly = 1e9

	// mostWaiting is the largest number of bytes of pages that the embedded server may keep while it waits for room to
	// send them, for all clients together.
	mostWaiting = 256 << 20

	// pageSize is the length in bytes of the welcome page of nginx 1.22 and later: the small page that a freshly
	// installed server has.
	pageSize = "615"
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:    "http",
		Summary: "a web page requested by many clients at once, on persistent or new connections (wrk, ab)",
		Reproduces: "requests per second for Alibaba's small page on nginx (paper 003, which gives neither its size nor " +
			"the number of clients; with server=nginx); several sizes as a list: payload=[1KiB, 16KiB, 256KiB]",
		Primary: func(p part.Params) string {
			if !workload.Scheduled(p) && p.Count("clients") > 1 { // latency would measure the queue of requests
				return "transaction_rate"
			}
			return "latency_p50"
		},
		Why: "as tcp-crr: no study of its own yet; a trial has room for 250 pages at 1 GB/s; at a rate, a median needs 200 " +
			"requests",
		Warm:  workload.TransactionWarm,
		Trial: func(p part.Params) time.Duration { return workload.TransactionTrial(p, shortest(p)) },
		Spins: func(part.Params) bool { return false },
		Params: slices.Concat(part.List{
			{
				Name: "payload", Default: pageSize,
				Summary: "bytes of the page, 0 to 1MiB; 615 is the size of nginx's welcome page",
				Check:   part.SizeBetween(0, largest),
			},
			{
				Name: "connection", Default: keepAlive,
				Summary: "keep-alive: persistent connections; new: a connection per request, which the server closes",
				Values:  []string{keepAlive, renewed},
			},
			{
				Name: "clients", Default: "50", Quiet: true,
				Summary: "concurrent connections of a pair, 1 to 1000, each with one request in flight",
				Check:   part.CountBetween(1, mostClients),
			},
			{
				Name: "server", Default: embedded, Quiet: true,
				Summary: "server program: nettoll's own server, or the real nginx; installed: nginx if it is installed, " +
					"otherwise embedded",
				Values: []string{embedded, nginx, program.Installed}, Check: nginxNeeded().Choose(nginx, embedded),
			},
		},
			workload.ScheduleParams(closed, "requests per second of a pair, sent when they are due or, if all clients are "+
				"busy, as soon as one is free; closed: each follows a response"),
			workload.StreamParams()),
		Refuse: refuse,
		Programs: func(p part.Params, side workload.Side) []program.Needed {
			if side == workload.Sink && p["server"] == nginx {
				return []program.Needed{nginxNeeded()}
			}
			return nil
		},
		Memory: func(p part.Params) int64 { return workload.DialogueMemory(p, 0, p.Size("payload")) },
		Metrics: slices.Concat(workload.DialogueMetrics(), workload.CPUMetrics(),
			workload.DurationMetrics(traffic.Latency, traffic.Service, traffic.Departure, traffic.Connect)),
	}
}

// shortest returns the length of a trial.
func shortest(p part.Params) time.Duration {
	const pages = 250 / (1 - workload.TransactionWarm)
	return max(settled, time.Duration(pages*float64(p.Size("payload"))/slowly*1e9))
}

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	if err := workload.Unscheduled(p); err != nil {
		return err
	}
	if p["sizes"] != "constant" {
		return fmt.Errorf("sizes=%s: all pages have the size of the payload (valid: constant)", p["sizes"])
	}
	if size := p.Size("payload"); p["server"] == embedded && p.Count("clients")*size > mostWaiting {
		return fmt.Errorf("clients=%s: with pages of %s bytes the embedded server may need more than %d bytes of memory "+
			"(valid: at most %d clients)",
			p["clients"], p["payload"], mostWaiting, mostWaiting/size)
	}
	return nil
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	switch {
	case s.Side == workload.Source:
		return newSource(s)
	case s.Side == workload.Sink && s.Params["server"] == nginx:
		return newNginx(s)
	case s.Side == workload.Sink:
		return dialogue.NewServer(dialogue.ServerSpec{
			Local: s.Local, Options: s.SocketOptions(), Answerer: newServer(s.Params.Size("payload")),
			Most: s.MostClients(), StallEvery: s.Stall.Every, StallFor: s.Stall.For, Plant: s.Plant,
		})
	}
	return nil, fmt.Errorf("open http: side %q (valid: source or sink)", s.Side)
}

func newSource(s workload.Spec) (traffic.Endpoint, error) {
	schedule, err := s.Schedule(1, 1, 1) // only of times
	if err != nil {
		return nil, err
	}
	renew := s.Params["connection"] == renewed
	c := &client{request: ask("GET", pagePath, s.Remote, renew), want: s.Params.Size("payload")}
	spec := dialogue.ClientSpec{
		Local: s.Local, Remote: s.Remote, Options: s.SocketOptions(), Connections: s.Params.Count("clients"),
		Schedule: schedule,
		Asks:     dialogue.Asks{Asker: c, Explain: c.explain, Head: headLimit},
		Renew:    renew, Fresh: s.Params["server"] == nginx,
	}
	if s.Params["server"] == embedded {
		spec.Farewell, spec.Leave = ask("POST", farewellPath, s.Remote, false), len(farewell)
	}
	return dialogue.NewClient(spec)
}

// ask returns a request without a body (RFC 9112, section 3).
func ask(method, path string, host netip.AddrPort, last bool) []byte {
	r := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	if method == "POST" {
		r += "Content-Length: 0\r\n" // RFC 9110, section 8.6
	}
	if last {
		r += "Connection: close\r\n"
	}
	return []byte(r + "\r\n")
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutDialogue(&r, t.Params.Rate("rate"), t.Params.Size("payload"))
	return r
}

// Carried implements [workload.Carrier]. A connection has one request at a time.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	return t.CarriedExchange(i, workload.Exchanged{
		Response: t.Params.Size("payload"), Renew: t.Params["connection"] == renewed,
	})
}
