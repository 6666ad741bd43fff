package byhand

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Options are the options of a source.
type Options struct {
	Workload workload.Workload
	Params   part.Params // as resolved by its description
	Network  string      // "tcp", or "tcp4" or "tcp6" if a name may have addresses of both families
	Sink     string      // address or name, and port
	Pairs    int
	Trials   int           // one for each interval
	Length   time.Duration // of an interval
	Seed     uint64
	CPUs     []int  // its threads run on these in turn; nil: anywhere
	Version  string // of this program
	Token    string // for a sink that requires one

	// called while the sink serves others first: with their number, before that, and each time that there are fewer
	Waiting  func(before int)
	Begun    func(Session)  // called before the first interval
	Interval func(Interval) // called after each
}

// Session is what both ends have agreed on.
type Session struct {
	Workload string            `json:"workload"` // as in cell ids
	Params   part.Params       `json:"params"`
	Source   string            `json:"source"` // address
	Sink     string            `json:"sink"`   // address, and port where it listens
	Pairs    int               `json:"pairs"`
	Versions map[string]string `json:"versions"` // of both programs
	// s: the shortest of several on the connection between both ends
	RoundTrip float64    `json:"round_trip,omitempty"`
	Granted   sock.Facts `json:"granted"`        // to the source's first socket
	CPUs      []int      `json:"cpus,omitempty"` // to which the source's threads are bound
	Interval  float64    `json:"interval"`       // s
	WarmUp    float64    `json:"warm_up"`        // s of each interval that do not count
}

const (
	connectLimit = 5 * time.Second

	// The range of the ports of sources. It is below the default range that the kernel uses for other sockets
	// ([ephemeral]).
	firstSource, lastSource = 16384, 32767
	// mostPorts is the largest number of ports of all pairs at the source. A discipline that makes connections needs a
	// new port for each; the next run finds the used ones in TIME_WAIT and takes others.
	mostPorts = 2048

	echoes = 5 // round trips of which the shortest counts
)

// Source runs a workload against a sink or, without one, against the kernel of the other machine. After an error or the
// end of the context, the result has what was measured until then; it is nil if nothing was.
func Source(ctx context.Context, o Options) (*Result, error) {
	s := &source{o: o, known: o.Workload.Describe().Vocabulary()}
	err := s.meet(ctx)
	if err == nil {
		defer context.AfterFunc(ctx, s.line.close)()
		err = s.run(ctx)
	}
	s.dismiss()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if len(s.result.Intervals) == 0 {
		return nil, err
	}
	s.result.sum(s.known, s.sums)
	return &s.result, err
}

type source struct {
	o      Options
	known  measure.Vocabulary // of the workload
	alone  bool               // without a sink
	line   line               // to the sink
	local  netip.Addr         //
	remote netip.AddrPort     // of the sink's line, or of the machine that answers
	rtt    time.Duration
	specs  []workload.Spec
	crew   *crew
	ended  <-chan struct{} // of the last trial: closed when its threads are done
	result Result
	sums   [traffic.Quantities]*hdrhistogram.Histogram
}

// meet connects, identifies the other end and measures the distance to it.
func (s *source) meet(ctx context.Context) error {
	d := s.o.Workload.Describe()
	s.alone = d.Alone
	s.result.Session = Session{
		Workload: d.ID(s.o.Params), Params: s.o.Params, Pairs: s.o.Pairs, Versions: map[string]string{"source": s.o.Version},
		CPUs:     s.o.CPUs,
		Interval: s.o.Length.Seconds(), WarmUp: s.warm().Seconds(),
	}
	network := s.o.Network
	if s.alone { // sends no packet: the kernel reports which of its addresses would be the source
		network = strings.Replace(network, "tcp", "udp", 1)
	}
	conn, err := (&net.Dialer{Timeout: connectLimit}).DialContext(ctx, network, s.o.Sink)
	if err != nil {
		return refusal(s.o.Sink, err)
	}
	near, far := unmapped(conn.LocalAddr()), unmapped(conn.RemoteAddr())
	s.local, s.remote = near.Addr(), far
	s.result.Session.Source, s.result.Session.Sink = s.local.String(), far.String()
	if s.alone {
		s.result.Session.Sink = far.Addr().String()
		return conn.Close()
	}
	s.line = line{conn: conn, peer: "the sink at " + far.String()}
	defer context.AfterFunc(ctx, s.line.close)()
	if err := s.line.say(hello{Nettoll: Protocol, Version: s.o.Version}); err != nil {
		return err
	}
	for waiting := 0; ; {
		h, err := s.welcome()
		switch {
		case err != nil:
			return err
		case h.Nonce != nil:
			if s.o.Token == "" {
				return fmt.Errorf("%s asks for a token (hint: --token, with the one that it was started with)", s.line.peer)
			}
			err = s.line.say(hello{Nettoll: Protocol, Version: s.o.Version, Proof: prove(s.o.Token, h.Nonce)})
		case h.Place > 0:
			if h.Place != waiting {
				waiting = h.Place
				s.o.Waiting(waiting)
			}
			err = s.line.say(hello{Nettoll: Protocol, Version: s.o.Version}) // a sign that it is still there
		default:
			s.result.Versions["sink"] = h.Version
			return s.echo()
		}
		if err != nil {
			return err
		}
	}
}

// welcome reads a hello of the sink, and returns why the sink does not serve.
func (s *source) welcome() (hello, error) {
	var h hello
	switch err := s.line.hear(&h, welcomeLimit); {
	case err != nil:
		return h, fmt.Errorf("%w (is it nettoll sink that listens there?)", err)
	case h.Nettoll == 0:
		return h, fmt.Errorf("%s does not speak nettoll's protocol", s.line.peer)
	case h.Refused != "":
		return h, fmt.Errorf("%s, nettoll %.40s, refuses: %s", s.line.peer, h.Version, h.Refused)
	case h.Nettoll != Protocol:
		return h, fmt.Errorf("%s, nettoll %.40s, speaks version %d of nettoll's protocol, and this source, nettoll %s, "+
			"version %d: %w", s.line.peer, h.Version, h.Nettoll, s.o.Version, Protocol, errVersion)
	}
	return h, nil
}

// refusal explains why there is no connection.
func refusal(to string, err error) error {
	hint := ""
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = " (is nettoll sink running there?)"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("connect to %s: no answer within %v (is the address right, and does a firewall let its port pass?)",
			to, connectLimit)
	}
	return fmt.Errorf("connect to %s: %w%s", to, cause(err), hint)
}

// echo measures the round trip, and checks whether packets of full size pass.
func (s *source) echo() error {
	for range echoes {
		start := time.Now()
		if _, err := s.line.ask(request{Do: doEcho}, answerLimit); err != nil {
			return err
		}
		if took := time.Since(start); s.rtt == 0 || took < s.rtt {
			s.rtt = took
		}
	}
	s.result.RoundTrip = s.rtt.Seconds()
	_, err := s.line.ask(request{Do: doEcho, Bytes: make([]byte, fullSize)}, answerLimit)
	if errors.Is(err, errSilent) {
		return fmt.Errorf("%s answers small packets but no full-size ones: a link on the path has a smaller MTU, and its "+
			"ICMP errors do not arrive (hint: lower the MTU at both ends)", s.line.peer)
	}
	if s.rtt > traffic.DrainLimit {
		s.result.Warnings = append(s.result.Warnings,
			fmt.Sprintf("a round trip takes %v; packets that arrive later than %v after the close count as lost: "+
				"use longer intervals (--interval)",
				s.rtt.Round(time.Millisecond), traffic.DrainLimit))
	}
	return err
}

// ask sends a request to the sink, if there is one.
func (s *source) ask(r request, within time.Duration) (answer, error) {
	if s.alone {
		return answer{}, nil
	}
	return s.line.ask(r, within)
}

func (s *source) warm() time.Duration {
	return time.Duration(s.o.Workload.Describe().Warm * float64(s.o.Length))
}

// run opens both ends and runs the trials.
func (s *source) run(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	if f, err := s.crew.facts(); err == nil && len(f) > 0 {
		s.result.Granted = f[0]
	}
	s.doubt()
	s.o.Begun(s.result.Session)
	began := time.Now()
	run := uint64(began.Unix()) << 32 // packets from an earlier source belong to no trial of this one
	for k := range s.o.Trials {
		start := time.Since(began)
		trial, err := s.trial(run|uint64(k+1), ctx.Done())
		if err != nil {
			return err
		}
		in := s.note(trial)
		in.Start = start.Round(time.Microsecond).Seconds()
		if k == 0 && in.silent {
			return s.diagnose()
		}
		s.result.Intervals = append(s.result.Intervals, in)
		s.o.Interval(in)
	}
	if s.alone {
		return nil
	}
	return s.line.say(request{Do: doEnd})
}

// doubt adds warnings about the requested settings.
func (s *source) doubt() {
	d := s.o.Workload.Describe()
	if least := d.Trial(s.o.Params); s.o.Length < least {
		s.result.Warnings = append(s.result.Warnings,
			fmt.Sprintf("an interval of %v is short: a trial of this workload lasts %v to be sound: use --interval %v",
				s.o.Length, least, least))
	}
	cpus := len(s.o.CPUs)
	if all, err := thread.CPUs(); err == nil && cpus == 0 {
		cpus = len(all)
	}
	spinners := s.o.Pairs
	if s.local == s.remote.Addr() { // the sink's threads are on this machine, too
		spinners *= 2
	}
	if d.Spins(s.o.Params) && spinners > cpus {
		s.result.Warnings = append(s.result.Warnings,
			fmt.Sprintf("%d threads spin on %s: they wait for each other's turns: use fewer pairs, or mode=wait", spinners,
				count(cpus, "CPU")))
	}
}

// fastest is the rate, in bytes a second, that buffers of a sink have to allow over a round trip: 100 Gbit/s.
const fastest = 100e9 / 8

// doubtBuffers adds a warning if the sink limits its buffers so much that they may limit the traffic. Half of a buffer
// is the window of a stream (tcp_win_from_space, include/net/tcp.h).
func (s *source) doubtBuffers(l *limits) {
	if l == nil || float64(min(l.Send, l.Recv))/2 >= fastest*s.rtt.Seconds() {
		return
	}
	s.result.Warnings = append(s.result.Warnings,
		fmt.Sprintf("each socket of the sink has a send buffer of at most %d KiB and a receive buffer of at most %d KiB, "+
			"because all have to fit into its --memory: rates may be lower (hint: a sink with more --memory, or fewer pairs)",
			l.Send>>10, l.Recv>>10))
}

// dismiss closes everything. The threads of an abandoned trial end when its window does.
func (s *source) dismiss() {
	s.line.close()
	switch {
	case s.crew == nil:
	case s.ended == nil:
		s.crew.end()
	default:
		go func() {
			<-s.ended
			s.crew.end()
		}()
	}
}

// ephemeral is the kernel's default for the ports of sockets that do not bind to one (inet_init_net of
// net/ipv4/af_inet.c).
const ephemeral = "32768 60999"

// sourceRange returns the first and the last port for sources. If the kernel's range was changed, there is a reason: in
// a container of a lab, a filter lets no other ports pass.
func sourceRange() (first, last int) {
	set, err := sysctl.Read("net.ipv4.ip_local_port_range")
	if err == nil && set != ephemeral {
		if n, _ := fmt.Sscan(set, &first, &last); n == 2 && first < last {
			return first, last
		}
	}
	return firstSource, lastSource
}

// open opens the sink's endpoints, then the source's, and then lets the sink accept the connections of the source's
// endpoints.
func (s *source) open() error {
	lo, hi := sourceRange()
	each := max(1, min(max(sinkPorts, mostPorts/s.o.Pairs), (hi-lo)/2/s.o.Pairs))
	// Two sources on one machine that start at the same time look in different places.
	from := lo + rand.IntN(max(1, hi-lo-s.o.Pairs*each))
	first, err := freePorts(s.local, from, s.o.Pairs*each)
	if err != nil {
		return err
	}
	name := s.o.Workload.Describe().Name
	o := &opening{
		Workload: name, Params: s.told(), Seed: s.o.Seed, Each: each, Length: int64(s.o.Length),
		Warm: int64(s.warm()),
	}
	for pair := range s.o.Pairs {
		o.Ports = append(o.Ports, uint16(first+pair*each))
	}
	a, err := s.ask(request{Do: doOpen, Open: o}, answerLimit)
	switch {
	case err != nil:
		return err
	case s.alone:
		a.Ports, a.Each = make([]uint16, s.o.Pairs), 1 // nobody else uses them
	case len(a.Ports) != s.o.Pairs || a.Each < 1:
		return fmt.Errorf("%s has opened %s of %d", s.line.peer, count(len(a.Ports), "pair"), s.o.Pairs)
	}
	s.doubtBuffers(a.Limits)
	for pair, port := range o.Ports {
		s.specs = append(s.specs, workload.Spec{
			Workload: name, Params: s.o.Params, Side: workload.Source, Pair: pair, Seed: s.o.Seed + uint64(pair),
			Local: netip.AddrPortFrom(s.local, port), LocalPorts: each,
			Remote: netip.AddrPortFrom(s.remote.Addr(), a.Ports[pair]), RemotePorts: a.Each, OwnClock: true,
		})
	}
	if s.crew, err = enlist(s.o.Workload, s.specs, s.o.CPUs); err != nil {
		return err
	}
	if err := s.crew.ready(); err != nil {
		return err
	}
	_, err = s.ask(request{Do: doReady}, traffic.ConnectLimit+answerLimit)
	return err
}

// told returns the parameters for the sink. The sink does not follow a schedule, so it does not need the file with one.
func (s *source) told() map[string]string {
	told := map[string]string{}
	for name, value := range s.o.Params {
		if !strings.HasPrefix(value, readsFile) {
			told[name] = value
		}
	}
	return told
}

// errStopped is the error of an abandoned trial.
var errStopped = errors.New("stopped")

// trial runs one trial.
func (s *source) trial(id uint64, stop <-chan struct{}) (workload.Trial, error) {
	t := workload.Trial{Params: s.o.Params, Window: s.o.Length - s.warm(), Length: s.o.Length}
	s.crew.all(func(e traffic.Endpoint) { e.Prepare(id) })
	_, err := s.ask(request{Do: doPrepare, Trial: id}, answerLimit)
	s.crew.wait()
	if err != nil {
		return t, err
	}
	if _, err := s.ask(request{Do: doGo, Trial: id, Ahead: int64(s.rtt / 2)}, answerLimit); err != nil {
		return t, err
	}
	open := clock.Now()
	w := traffic.Window{Open: open, Start: open + int64(s.warm()), Close: open + int64(s.o.Length)}
	s.crew.all(func(e traffic.Endpoint) { traffic.Drive(e, id, w) })
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		s.crew.wait()
		close(ended)
	}()
	// A sink that dies is noticed while the threads still run.
	a, err := s.ask(request{Do: doCollect}, s.o.Length+answerLimit)
	if err != nil {
		return t, fmt.Errorf("%w in the middle of a trial", err)
	}
	select {
	case <-ended:
		s.ended = nil
	case <-stop:
		return t, errStopped
	}
	if t.Sources, err = s.crew.collect(&t.Histograms); err != nil {
		return t, err
	}
	if s.alone {
		t.Sinks = make([]traffic.Sample, s.o.Pairs)
		return t, nil
	}
	if a.Left == nil {
		return t, fmt.Errorf("%s has sent no samples", s.line.peer)
	}
	if got := len(a.Left.Samples); got != s.o.Pairs {
		return t, fmt.Errorf("%s has sent %d samples of %d", s.line.peer, got, s.o.Pairs)
	}
	t.Sinks = a.Left.Samples
	for i := range t.Sinks {
		one := &t.Sinks[i]
		one.Failure, one.Doubt = plain(one.Failure), plain(one.Doubt)
	}
	if err := t.AddHistograms(a.Left.Histograms); err != nil {
		return t, fmt.Errorf("%s has sent invalid durations: %w", s.line.peer, err)
	}
	return t, nil
}

// diagnose finds out why nothing has arrived, with datagrams between the first ports of both ends.
func (s *source) diagnose() error {
	s.crew.end()
	s.crew = nil
	first := s.specs[0]
	if s.alone {
		return fmt.Errorf("%s does not answer", first.Remote.Addr())
	}
	if _, err := s.ask(request{Do: doProbe}, answerLimit); err != nil {
		return fmt.Errorf("nothing has arrived, and why cannot be found out: %w", err)
	}
	passes := func(payload int) error {
		try, err := proof.Passage(first.Local, first.Remote, payload, 0, nil, proof.Patience{})
		if err != nil {
			return err
		}
		_, err = try()
		return err
	}
	between := fmt.Sprintf("nothing arrives that is sent from %s to %s by UDP", first.Local, first.Remote)
	if err := passes(traffic.HeaderSize); err != nil {
		return fmt.Errorf("%s (hint: a firewall, or an address translation that changes ports; the sink's are those after "+
			"its own)", between)
	}
	payload := s.o.Params.Size("payload")
	if payload == 0 {
		return errors.New("nothing has arrived, though datagrams pass")
	}
	switch err := passes(payload); {
	case errors.Is(err, syscall.EMSGSIZE):
		return fmt.Errorf("%s with a payload of %d bytes, which is more than fits the MTU: fragments do not pass (hint: a "+
			"smaller payload)", between, payload)
	case err != nil:
		return fmt.Errorf("%s with a payload of %d bytes, but small datagrams do: a link on the path has a smaller MTU, "+
			"and its ICMP errors do not arrive (hint: use a smaller payload, or lower the MTU here)", between, payload)
	}
	return errors.New("nothing has arrived within the first interval, though datagrams of that size pass")
}
