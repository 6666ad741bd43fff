package udprate

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload udp-rate.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	// Values of parameters.
	fullRate = "max" // as fast as the source can
	noDrop   = "no-drop"

	largest = 65507 // bytes: an IPv4 datagram of 65535 minus its headers (RFC 791, RFC 768)

	// defaultBatch is the number of datagrams into which every kernel can cut a message, and a quarter of what a
	// socket's default buffer holds: 256 datagrams of 64 bytes.
	defaultBatch = sock.MostSegments
	mostBatch    = sock.MostSegments

	// Room for what a sink with UDP_GRO receives in one call: a message has up to 64 KiB, and there are several only if
	// a path has cut them.
	coalesced   = 1 << 16 // bytes
	sinkBatches = 8
)

// modes returns the values of the parameter mode.
func modes() map[string]mode {
	return map[string]mode{"single": single, "batched": batched, "segmented": segmented}
}

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name: "udp-rate",
		Summary: "UDP datagrams as fast as the source can send, or at a rate, counted by the sink (sockperf throughput, " +
			"iperf3 -u -b 0)",
		Reproduces: "sockperf throughput, netperf UDP_STREAM, iperf3 -u; Throughput Basic of SeCoNetBench with payload 64, " +
			"653 and 1370, if that was UDP, which the paper does not say (figure 4b); with search=no-drop the throughput of " +
			"RFC 2544, section 26.1",
		Primary: primary,
		Why: "the ratio of two paths has settled at 100 ms; a search takes about ten steps of 40 ms and one of 200 ms, " +
			"together 1 s",
		Warm:     0.1,
		Trial:    trial,
		Spins:    func(part.Params) bool { return false }, // the source never waits, but the sink does
		Refuse:   refuse,
		Params:   params(),
		Memory:   batchMemory,
		Declares: declared(),
		Metrics:  metricNames(),
	}
}

func params() part.List {
	list := part.List{
		{
			Name: "payload", Default: "64", Summary: "bytes of a datagram, 24 to 65507",
			Check: part.SizeBetween(traffic.HeaderSize, largest),
		},
		{
			Name: "mode", Default: "single", Values: []string{"single", "batched", "segmented"},
			Summary: "datagrams per system call: single: one; batched: many (sendmmsg, recvmmsg); segmented: one message that " +
				"the kernel splits (UDP_SEGMENT, UDP_GRO)",
		},
		{
			Name: "batch", Default: strconv.Itoa(defaultBatch), Quiet: true, Check: part.CountBetween(1, mostBatch),
			Summary: "maximum datagrams per system call if mode is not single, 1 to 64; segmented: at most 65507 bytes together",
		},
		{
			Name: "flows", Default: "1", Quiet: true,
			Summary: "source ports of a pair, used in turn, 1 to 64",
			Check:   part.CountBetween(1, mostFlows),
		},
		{
			Name: "search", Default: "none", Values: []string{"none", noDrop}, Quiet: true,
			Summary: "no-drop: find the highest rate with a loss below the bound, in each trial and by each pair",
		},
		{
			Name: "bound", Default: "0.1%", Quiet: true,
			Summary: "highest loss that a search accepts, 0 to 50%", Check: part.ShareBetween(0, 0.5),
		},
	}
	list = append(list, workload.ScheduleParams(fullRate,
		"datagrams that a pair sends: max, or a number per second, such as 10k/s")...)
	return append(list, workload.SocketParams()...)
}

func primary(p part.Params) string {
	if p["search"] == noDrop {
		return "no_drop_rate"
	}
	return "packet_rate"
}

// trial returns the default length of a trial; docs/method.md has the study behind it. A slow source needs time for
// enough datagrams.
func trial(p part.Params) time.Duration {
	const shortest, datagrams, longest = 100 * time.Millisecond, 1000, 10 * time.Second
	if p["search"] == noDrop {
		return time.Second
	}
	if rate := p.Rate("rate"); rate > 0 {
		return min(max(shortest, time.Duration(datagrams/rate*1e9)), longest)
	}
	return shortest
}

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	seeks := p["search"] == noDrop
	list := Workload{}.defaults()
	switch {
	case seeks && p.Rate("rate") > 0:
		return fmt.Errorf("search=%s finds the rate itself, so rate=%s is not allowed", noDrop, p["rate"])
	case !seeks && p["bound"] != list["bound"]:
		return fmt.Errorf("bound=%s needs a search (valid: search=%s)", p["bound"], noDrop)
	case p["mode"] == "single" && p["batch"] != list["batch"]:
		return fmt.Errorf("batch=%s has no effect with mode=single (valid: mode=batched or mode=segmented)", p["batch"])
	case p["mode"] == "segmented" && p.Size("payload") > largest/2:
		return fmt.Errorf("payload=%s leaves no room for a second segment (valid: up to %d with mode=segmented)",
			p["payload"], largest/2)
	case p["mode"] == "segmented" && workload.Varied(p):
		return errors.New("mode=segmented needs datagrams of one size (valid: mode=single or mode=batched)")
	case !seeks:
		return workload.Unscheduled(p)
	}
	return nil
}

// defaults returns the parameters of an endpoint without given ones.
func (Workload) defaults() part.Params {
	p, _ := params().Resolve("workload udp-rate", nil) // without given parameters, there is no error
	return p
}

// batchMemory returns the memory of a sink for the datagrams that it receives in one call.
func batchMemory(p part.Params) int64 {
	if p["mode"] != "batched" {
		return 0
	}
	size := p.Size("payload")
	if workload.Varied(p) {
		size = largest
	}
	return int64(p.Count("batch")) * int64(size)
}

// Open implements [workload.Workload].
func (w Workload) Open(s workload.Spec) (e traffic.Endpoint, err error) {
	switch flows := s.Params.Count("flows"); {
	case s.Side == workload.Sink:
		e, err = openSink(s, flows)
	case s.Side != workload.Source:
		return nil, fmt.Errorf("open udp-rate: side %q (valid: source or sink)", s.Side)
	case flows > s.LocalPorts:
		return nil, fmt.Errorf("open udp-rate: flows=%d, but a source has only %d ports", flows, s.LocalPorts)
	default:
		e, err = openSource(s, flows)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// open opens one socket of an endpoint.
func open(s workload.Spec, local, remote netip.AddrPort) (sock.Socket, error) {
	sk, err := sock.UDP(local, remote)
	if err != nil {
		return sk, err
	}
	if err := errors.Join(sk.Set(s.SocketOptions()), sk.SetTimeout(patience)); err != nil {
		sk.Close()
		return sk, err
	}
	return sk, nil
}

func openSource(s workload.Spec, flows int) (_ *source, err error) {
	size := s.Params.Size("payload")
	e := &source{mode: modes()[s.Params["mode"]], size: size, stride: size, most: 1}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	e.varied = workload.Varied(s.Params)
	if e.varied {
		e.stride = largest
	}
	if e.mode != single {
		e.most = s.Params.Count("batch")
	}
	if e.mode == segmented {
		e.most = min(e.most, largest/size)
	}
	e.buf = traffic.Payload(e.most * e.stride)
	if e.mode == batched {
		e.batch = sock.NewBatch(e.buf, e.stride, size)
	}
	if s.Params["search"] == noDrop {
		e.seeker = &seeker{bound: s.Params.Share("bound")}
		e.schedule, err = traffic.NewSchedule(traffic.ScheduleSpec{ // the search sets the rate
			Rate: 1, Arrivals: s.Params["arrivals"], Sizes: s.Params["sizes"], Size: size, Least: traffic.HeaderSize,
			Most: largest, Seed: s.Seed,
		})
	} else {
		e.schedule, err = s.Schedule(size, traffic.HeaderSize, largest)
	}
	if err != nil {
		return nil, err
	}
	if e.schedule != nil && e.seeker == nil {
		e.departure = traffic.NewRecorder()
	}
	for i := range flows {
		sk, err := open(s, netip.AddrPortFrom(s.Local.Addr(), s.Local.Port()+uint16(i)), s.Remote)
		if err != nil {
			return nil, err
		}
		e.flows = append(e.flows, sk)
		if e.mode != segmented {
			continue
		}
		if err := sk.SetSegment(size); err != nil {
			return nil, err
		}
	}
	e.sock = e.flows[0]
	return e, nil
}

func openSink(s workload.Spec, flows int) (*sink, error) {
	from := s.Remote
	if flows > 1 {
		from = netip.AddrPort{} // from any port
	}
	sk, err := open(s, s.Local, from)
	if err != nil {
		return nil, err
	}
	e := &sink{
		endpoint: endpoint{sock: sk}, counters: make([]traffic.Counter, flows), seeks: s.Params["search"] == noDrop,
		stall: s.Stall,
	}
	size := s.Params.Size("payload")
	if workload.Varied(s.Params) {
		size = largest
	}
	switch modes()[s.Params["mode"]] {
	case batched:
		e.slots = s.Params.Count("batch")
		e.batch = sock.NewRecvBatch(e.slots, size, false)
	case segmented:
		if err := sk.SetCoalesce(); err != nil {
			sk.Close()
			return nil, err
		}
		e.slots, e.joins = sinkBatches, true
		e.batch = sock.NewRecvBatch(e.slots, coalesced, true)
	default:
		e.buf = traffic.Buffer(size)
	}
	return e, nil
}
