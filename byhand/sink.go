package byhand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Bounds of what a source can ask for.
const (
	MostPairs       = 64
	ShortestTrial   = 10 * time.Millisecond
	LongestTrial    = time.Minute
	mostAhead       = time.Second
	mostConnections = 16 // that have said nothing yet, or are being told that the sink is busy
)

// A Sink waits for sources and serves one after another.
type Sink struct {
	Workloads []workload.Workload
	Version   string       // of this program
	CPUs      []int        // its threads run on these in turn; nil: anywhere
	Once      bool         // end after the first source that was served
	Say       func(string) // tells the user what happens

	mu   sync.Mutex
	busy string // with whom; "": with nobody
}

// Listen opens a sink's listening socket. Where its address is none in particular it serves both families.
func Listen(ctx context.Context, at string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, err)
	}
	var l net.Listener
	if number, notNumber := strconv.ParseUint(port, 10, 16); host == "" && notNumber == nil {
		l, err = everywhere(uint16(number))
	}
	if l == nil && (err == nil || errors.Is(err, syscall.EAFNOSUPPORT)) {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", at)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: address already in use (hint: another sink may be running there; --listen names another port)", at)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w%s", at, cause(err), hint(err))
	}
	return l, nil
}

// everywhere listens on all addresses. (net.Listen does so over IPv6 only where the loopback link is up, which nobody may have seen to in a
// namespace: ipsock_posix.go, probe.)
func everywhere(port uint16) (net.Listener, error) {
	s, err := sock.Stream(netip.AddrPortFrom(netip.IPv6Unspecified(), port), "")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(s.FD), "listener") // which closes it
	defer f.Close()
	if err := s.Listen(); err != nil {
		return nil, err
	}
	return net.FileListener(f)
}

// cause leaves out of a network error what it repeats of the address and the call.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// Serve serves sources until the context ends, or with Once until one has been served, and returns why that one failed.
func (s *Sink) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var (
		group  sync.WaitGroup
		served error
		room   = make(chan struct{}, mostConnections)
	)
	defer group.Wait()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			group.Wait()
			return served
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			s.Say(fmt.Sprintf("a source cannot be served: accept: %v%s", cause(err), hint(err)))
			time.Sleep(time.Second) // it stands in the queue until there is room
			continue
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // a connection that ended before it was accepted (accept(2))
			continue
		}
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			took, err := s.meet(ctx, line{conn, "the source at " + unmapped(conn.RemoteAddr()).String()})
			if took && s.Once {
				served = err
				cancel()
			}
		})
	}
}

// meet talks to whoever has connected. It returns whether that was a source, which has been served.
func (s *Sink) meet(ctx context.Context, l line) (took bool, err error) {
	var h hello
	if err := l.hear(&h, answerLimit); err != nil || h.Nettoll == 0 {
		s.Say(fmt.Sprintf("turned away: %v", cmp.Or(err, fmt.Errorf("%s is no nettoll", l.peer))))
		return false, nil
	}
	own := hello{Nettoll: Protocol, Version: s.Version}
	if h.Nettoll != Protocol {
		own.Refused = fmt.Sprintf("it speaks version %d of nettoll's protocol, and this source, nettoll %s, version %d: use the same nettoll on both sides", Protocol, h.Version, h.Nettoll)
	} else if busy := s.take(l.peer); busy != "" {
		own.Refused = "it is busy with " + busy + ", and serves one after another"
	}
	if own.Refused != "" {
		s.Say(fmt.Sprintf("turned away %s: %s", strings.TrimPrefix(l.peer, "the "), own.Refused))
		_ = l.say(own) // it may be gone
		return false, nil
	}
	defer s.release()
	if err := l.say(own); err != nil {
		return false, nil
	}
	session := &session{sink: s, line: l}
	err = session.serve()
	session.dismiss()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		s.Say(err.Error())
	default:
		s.Say(fmt.Sprintf("served %s: %s", strings.TrimPrefix(l.peer, "the "), count(session.trials, "trial")))
	}
	return true, err
}

// take makes the sink busy with a source, or says with whom it is. A source that has ended or died may leave a trial that still runs: what
// is over soon is waited for.
func (s *Sink) take(peer string) (busy string) {
	const soon, poll = 2 * time.Second, 10 * time.Millisecond
	for start := time.Now(); ; time.Sleep(poll) {
		if busy = s.tryTake(peer); busy == "" || time.Since(start) > soon {
			return busy
		}
	}
}

func (s *Sink) tryTake(peer string) (busy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == "" {
		s.busy = peer
		return ""
	}
	return s.busy
}

func (s *Sink) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = ""
}

// session is what one source has a sink do.
type session struct {
	sink    *Sink
	line    line
	opening opening
	crew    *crew
	ready   bool
	running bool
	trials  int
	first   netip.AddrPort // of the first pair, here and there
	far     netip.AddrPort
	mirror  *proof.Mirror
}

// serve answers requests until the source says that it was the last one.
func (s *session) serve() error {
	for {
		var r request
		err := s.line.hear(&r, silence)
		switch {
		case errors.Is(err, errEnded):
			return fmt.Errorf("%w early: it was interrupted, has failed or died", err)
		case err != nil:
			return err
		case r.Do == doEnd:
			return nil
		}
		a, err := s.answer(r)
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if sent := s.line.say(a); err != nil || sent != nil {
			return cmp.Or(err, sent)
		}
	}
}

// dismiss waits for the end of a trial that is under way and closes everything.
func (s *session) dismiss() {
	if s.mirror != nil {
		s.mirror.Close()
	}
	if s.crew == nil {
		return
	}
	if s.running {
		s.crew.wait()
	}
	s.crew.end()
	s.crew = nil
}

func (s *session) answer(r request) (answer, error) {
	switch {
	case r.Do == doEcho:
		return answer{Bytes: r.Bytes}, nil
	case r.Do == doOpen && r.Open != nil && s.crew == nil:
		return s.open(*r.Open)
	case s.crew == nil:
	case r.Do == doReady && !s.ready:
		return answer{}, s.accept()
	case !s.ready:
	case r.Do == doPrepare && !s.running:
		s.crew.all(func(e traffic.Endpoint) { e.Prepare(r.Trial) })
		s.crew.wait()
		return answer{}, nil
	case r.Do == doGo && !s.running:
		return answer{}, s.begin(r)
	case r.Do == doCollect && s.running:
		return s.collect()
	case r.Do == doProbe && !s.running && s.mirror == nil:
		return answer{}, s.probe()
	}
	return answer{}, fmt.Errorf("request %.20q makes no sense now", r.Do)
}

// check says what of an opening cannot be.
func (o opening) check() error {
	switch length, warm := time.Duration(o.Length), time.Duration(o.Warm); {
	case len(o.Ports) < 1 || len(o.Ports) > MostPairs:
		return fmt.Errorf("%d pairs: want 1 to %d", len(o.Ports), MostPairs)
	case length < ShortestTrial || length > LongestTrial || warm < 0 || warm >= length:
		return fmt.Errorf("trials of %v, %v of them warm-up: want %v to %v", length, warm, ShortestTrial, LongestTrial)
	case o.Each < 1 || o.Each > lastPort:
		return fmt.Errorf("%d ports for each pair", o.Each)
	}
	for _, first := range o.Ports {
		if first == 0 || int(first)+o.Each-1 > lastPort {
			return fmt.Errorf("%d ports from %d on", o.Each, first)
		}
	}
	for name, value := range o.Params {
		if strings.HasPrefix(value, readsFile) {
			return fmt.Errorf("%s: %.40q: a sink reads no files", name, value)
		}
	}
	return nil
}

// readsFile is how the values of parameters begin that name a file (traffic.ParseArrivals).
const readsFile = "replay:"

// open opens the sinks.
func (s *session) open(o opening) (answer, error) {
	if err := o.check(); err != nil {
		return answer{}, err
	}
	load, err := find(s.sink.Workloads, o.Workload)
	if err != nil {
		return answer{}, err
	}
	params, err := load.Describe().Resolve(o.Params)
	if err != nil {
		return answer{}, err
	}
	if err := load.Describe().AcrossTrust(params); err != nil {
		return answer{}, err
	}
	near, far := s.line.local(), s.line.remote().Addr()
	first, err := freePorts(near.Addr(), int(near.Port())+1, len(o.Ports)*sinkPorts)
	if err != nil {
		return answer{}, err
	}
	a := answer{Each: sinkPorts}
	specs := make([]workload.Spec, len(o.Ports))
	for pair, port := range o.Ports {
		own := uint16(first + pair*sinkPorts)
		a.Ports = append(a.Ports, own)
		specs[pair] = workload.Spec{
			Workload: o.Workload, Params: params, Side: workload.Sink, Pair: pair, Seed: o.Seed + uint64(pair),
			Local: netip.AddrPortFrom(near.Addr(), own), LocalPorts: sinkPorts, Remote: netip.AddrPortFrom(far, port), RemotePorts: o.Each, OwnClock: true,
		}
	}
	if s.crew, err = enlist(load, specs, s.sink.CPUs); err != nil {
		return answer{}, err
	}
	s.opening, s.first, s.far = o, specs[0].Local, specs[0].Remote
	s.sink.Say(fmt.Sprintf("%s: %s, %s", strings.TrimPrefix(s.line.peer, "the "), load.Describe().ID(params), count(len(specs), "pair")))
	return a, nil
}

// sinkPorts is how many ports each pair has at the sink: a discipline that makes connections goes round them.
const sinkPorts = 8

// count is a number of things: "1 pair", "2 pairs".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// find returns the workload of a name.
func find(loads []workload.Workload, name string) (workload.Workload, error) {
	names := make([]string, len(loads))
	for i, l := range loads {
		if names[i] = l.Describe().Name; names[i] == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("unknown workload %.40q (known: %s)", name, strings.Join(names, ", "))
}

// accept takes what the sources have connected.
func (s *session) accept() error {
	for pair, e := range s.crew.endpoints {
		if r, ok := e.(workload.Readier); ok {
			if err := r.Ready(answerLimit / 2); err != nil {
				return fmt.Errorf("sink of pair %d for %s: %w", pair, s.opening.Workload, err)
			}
		}
	}
	s.ready = true
	return nil
}

// begin opens a trial.
func (s *session) begin(r request) error {
	if r.Ahead < 0 || r.Ahead > int64(mostAhead) {
		return fmt.Errorf("an opening in %v: want 0 to %v", time.Duration(r.Ahead), mostAhead)
	}
	open := clock.Now() + r.Ahead
	w := traffic.Window{Open: open, Start: open + s.opening.Warm, Close: open + s.opening.Length}
	s.crew.all(func(e traffic.Endpoint) { traffic.Drive(e, r.Trial, w) })
	s.running = true
	s.trials++
	return nil
}

// collect waits for the threads and returns what they saw.
func (s *session) collect() (answer, error) {
	s.crew.wait()
	s.running = false
	var sums [traffic.Quantities]*hdrhistogram.Histogram
	samples, err := s.crew.collect(&sums)
	if err != nil {
		return answer{}, err
	}
	l := &left{Samples: samples}
	for q, sum := range sums {
		if sum == nil {
			continue
		}
		if l.Histograms[q], err = measure.EncodeHistogram(sum); err != nil {
			return answer{}, err
		}
	}
	return answer{Left: l}, nil
}

// probe closes the endpoints and answers whatever comes to the first port.
func (s *session) probe() error {
	s.crew.end()
	s.crew = nil
	var err error
	s.mirror, err = proof.NewMirror(s.first, s.far)
	return err
}
