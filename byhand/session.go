package byhand

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Limits of the requests of a source.
const (
	MostPairs     = 64
	ShortestTrial = 10 * time.Millisecond
	LongestTrial  = time.Minute
	mostAhead     = time.Second
	mostEchoes    = 4 * echoes

	// hangLimit is how long the threads may take to prepare a trial, and to end it after its close. It is less than the
	// time that the source waits for the answer.
	hangLimit = answerLimit - 2*time.Second

	// sinkPorts is the number of ports of each pair at the sink: a discipline that makes connections uses them in turn.
	sinkPorts = 8
)

// LeastMemory is the least memory for each session of a sink, in bytes.
const LeastMemory = ownMemory + 32<<20

// ownMemory is the memory of a session's process before it opens anything, in bytes: the Go runtime, a thread for each
// of 64 pairs, and garbage that is not collected between two trials (traffic.Sweep).
const ownMemory = 160 << 20

// Reasons for which a session ends before its source ends it.
var (
	errOrder       = errors.New("out of order")
	errMemory      = errors.New("more memory than the sink gives a session")
	errOutOfMemory = errors.New("it needed more memory than the limit of a session,")
	errTurn        = errors.New("other sources wait")
	errHangs       = errors.New("a trial did not end")
)

// step is the progress of a session.
type step int

const (
	met      step = iota // nothing is open
	opened               // the sink's endpoints are open
	ready                // the endpoints of both ends are open, and no trial is under way
	prepared             // a trial will begin
	running              // a trial is under way
	probing              // the endpoints are closed again, and the sink answers what arrives
)

// takes returns the requests that a session accepts.
func (s step) takes() []string {
	return [...][]string{
		met:      {doEcho, doOpen, doEnd},
		opened:   {doReady, doEnd},
		ready:    {doPrepare, doProbe, doEnd},
		prepared: {doGo, doEnd},
		running:  {doCollect},
		probing:  {doEnd},
	}[s]
}

// session is the work of a sink for one source. It has its own process: when it ends, the kernel releases its threads,
// sockets and memory.
type session struct {
	terms
	loads    []workload.Workload
	line     line
	out      *json.Encoder
	requests <-chan heard
	crowded  <-chan struct{} // closed when the session has to end with its trial

	step    step
	by      time.Time // the deadline for the source's next step, and the time that it has for that step
	within  time.Duration
	echoes  int
	opening opening
	crew    *crew
	trials  int
	trial   uint64         // the one prepared
	over    time.Time      // the latest time at which its threads are done
	first   netip.AddrPort // of the first pair, here and at the other end
	far     netip.AddrPort
	mirror  *proof.Mirror
}

// heard is a request, or the reason why no more will come.
type heard struct {
	request
	err error
}

// ServeSession serves one source. It is the main function of a process that a [Sink] has started. Files are the
// inherited ones; in and out are the sink's ends of two pipes. The process ends if it allocates more than its terms
// allow.
func ServeSession(_ context.Context, loads []workload.Workload, files map[string]*os.File, in io.Reader,
	out io.Writer,
) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the terms of a session: %w", err)
	}
	s := &session{loads: loads, out: json.NewEncoder(out)}
	if err := json.Unmarshal(first, &s.terms); err != nil {
		return fmt.Errorf("read the terms of a session: %w", err)
	}
	if err := process.LimitMemory(s.Memory); err != nil {
		return err
	}
	file := files[connectionFile]
	if file == nil {
		return fmt.Errorf("no inherited file %q", connectionFile)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return err
	}
	_ = file.Close()
	// A source that has vanished is noticed during a trial, too. If the trial's own packets crowd out these probes, the
	// trial usually ends first.
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: aliveAfter, Interval: aliveEvery, Count: aliveCount,
		}); err != nil {
			return err
		}
	}
	s.line = line{conn, s.Peer, requestSize}
	crowded := make(chan struct{})
	s.crowded = crowded
	go func() {
		_, _ = io.Copy(io.Discard, lines) // until it is closed
		close(crowded)
	}()
	if err := s.line.say(hello{Nettoll: Protocol, Version: s.Version}); err != nil {
		return s.fail(err)
	}
	s.requests = s.listen()
	if err := s.serve(); err != nil {
		return s.fail(err)
	}
	s.tell(word{Say: fmt.Sprintf("served %s: %s", strings.TrimPrefix(s.Peer, "the "), count(s.trials, "trial"))})
	return nil
}

// A source that is silent during a trial gets a keepalive probe after aliveAfter. It has vanished if it does not answer
// aliveCount probes, aliveEvery apart.
const (
	aliveAfter = 2 * time.Second
	aliveEvery = time.Second
	aliveCount = 4
)

// tell sends a message to the sink. If the sink is gone, this process will soon be gone too.
func (s *session) tell(w word) {
	w.Trials = s.trials
	_ = s.out.Encode(w)
}

// fail reports to the sink why the session ends.
func (s *session) fail(err error) error {
	text := err.Error()
	if !strings.HasPrefix(text, s.Peer) {
		text = s.Peer + ": " + text
	}
	s.tell(word{Failed: text})
	return nil
}

// listen reads requests, one after another, while something else is done.
func (s *session) listen() <-chan heard {
	requests := make(chan heard)
	go func() {
		for {
			var h heard
			h.err = s.line.hear(&h.request, 0)
			requests <- h
			if h.err != nil {
				return
			}
		}
	}()
	return requests
}

// serve answers requests until the source sends its last one.
func (s *session) serve() error {
	s.enter(met)
	for {
		r, err := s.next()
		if err == nil && r.Do == doEnd && slices.Contains(s.step.takes(), doEnd) {
			return nil
		}
		var a answer
		if err == nil {
			a, err = s.answer(r)
		}
		switch {
		case errors.Is(err, errEnded):
			return fmt.Errorf("%w early: it was interrupted, has failed or died", err)
		case err != nil:
			a = answer{Error: err.Error()}
		}
		if sent := s.line.say(a); err != nil || sent != nil {
			return cmp.Or(err, sent)
		}
		traffic.Sweep()
	}
}

// enter moves the session to a step, and sets the deadline for the source's next step.
func (s *session) enter(next step) {
	s.step, s.within = next, answerLimit
	if next == met || next == opened || next == probing { // the source connects, or finds out which packets do not pass
		s.within = openLimit
	}
	s.by = time.Now().Add(s.within)
}

// next waits for the next request.
func (s *session) next() (request, error) {
	within := time.Until(s.by)
	s.tell(word{Within: max(0, within)})
	select {
	case h := <-s.requests:
		return h.request, h.err
	case <-time.After(within):
		return request{}, fmt.Errorf("%s %w %v: its next request was to be %s", s.Peer, errSlow, s.within,
			quoted(s.step.takes()))
	}
}

// errSlow is the error about a source that has not reached its next step in time.
var errSlow = errors.New("made no progress for")

// quoted lists words: "a", "b" or "c".
func quoted(words []string) string {
	var text strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			text.WriteString(" or ")
		case i > 0:
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%q", w)
	}
	return text.String()
}

// answer does what a request asks for, if the request is valid in this step.
func (s *session) answer(r request) (answer, error) {
	if !slices.Contains(s.step.takes(), r.Do) {
		return answer{}, fmt.Errorf("request %.20q is %w: this session takes %s now", r.Do, errOrder, quoted(s.step.takes()))
	}
	select {
	case <-s.crowded:
		if s.step != prepared && s.step != running {
			return answer{}, fmt.Errorf("%w, and this one was served for %v, as long as the sink lets one have (its --time): "+
				"start it again for more", errTurn, s.Time)
		}
	default:
	}
	s.tell(word{Within: answerLimit})
	switch r.Do {
	case doEcho:
		return s.echo(r)
	case doOpen:
		return s.open(r.Open)
	case doReady:
		return answer{}, s.accept()
	case doPrepare:
		return answer{}, s.prepare(r.Trial)
	case doGo:
		return answer{}, s.begin(r)
	case doCollect:
		return s.collect()
	}
	return answer{}, s.probe()
}

// echo returns what it received.
func (s *session) echo(r request) (answer, error) {
	if s.echoes++; s.echoes > mostEchoes || len(r.Bytes) > fullSize {
		return answer{}, fmt.Errorf("echo %d of %d bytes is %w (valid: %d of at most %d bytes, then %q)", s.echoes,
			len(r.Bytes), errOrder, mostEchoes, fullSize, doOpen)
	}
	return answer{Bytes: r.Bytes}, nil
}

// check returns an error if an opening is not valid.
func (o opening) check() error {
	switch length, warm := time.Duration(o.Length), time.Duration(o.Warm); {
	case len(o.Ports) < 1 || len(o.Ports) > MostPairs:
		return fmt.Errorf("%d pairs (valid: 1 to %d)", len(o.Ports), MostPairs)
	case length < ShortestTrial || length > LongestTrial || warm < 0 || warm >= length:
		return fmt.Errorf("trials of %v with a warm-up of %v (valid: %v to %v)", length, warm, ShortestTrial, LongestTrial)
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
			return fmt.Errorf("%.40q: %.40q: a sink reads no files", name, value)
		}
	}
	return nil
}

// readsFile is the prefix of parameter values that name a file (traffic.ParseArrivals).
const readsFile = "replay:"

// open opens the sinks.
func (s *session) open(asked *opening) (answer, error) {
	if asked == nil {
		return answer{}, fmt.Errorf("request %q has nothing to open", doOpen)
	}
	o := *asked
	if err := o.check(); err != nil {
		return answer{}, err
	}
	load, err := find(s.loads, o.Workload)
	if err != nil {
		return answer{}, err
	}
	d := load.Describe()
	params, err := d.Resolve(o.Params)
	if err != nil {
		return answer{}, err
	}
	if err := d.AcrossTrust(params); err != nil {
		return answer{}, err
	}
	near, far := s.line.local(), s.line.remote().Addr()
	g, err := s.afford(d, params, len(o.Ports), near.Addr())
	if err != nil {
		return answer{}, err
	}
	if err := process.LimitMemory(s.Memory - g.data); err != nil {
		return answer{}, err
	}
	first, err := freePorts(near.Addr(), int(near.Port())+s.Ports, len(o.Ports)*sinkPorts)
	if err != nil {
		return answer{}, err
	}
	a := answer{Each: sinkPorts, Limits: g.limits}
	specs := make([]workload.Spec, len(o.Ports))
	for pair, port := range o.Ports {
		own := uint16(first + pair*sinkPorts)
		a.Ports = append(a.Ports, own)
		specs[pair] = workload.Spec{
			Workload: o.Workload, Params: g.params, Side: workload.Sink, Pair: pair, Seed: o.Seed + uint64(pair),
			Local: netip.AddrPortFrom(near.Addr(), own), LocalPorts: sinkPorts, Remote: netip.AddrPortFrom(far, port),
			RemotePorts: o.Each, OwnClock: true,
		}
	}
	if s.crew, err = enlist(load, specs, s.CPUs); err != nil {
		return answer{}, err
	}
	s.opening, s.first, s.far = o, specs[0].Local, specs[0].Remote
	s.enter(opened)
	s.tell(word{Say: fmt.Sprintf("%s: %s, %s", strings.TrimPrefix(s.Peer, "the "), d.ID(params),
		count(len(specs), "pair")), Within: openLimit})
	return a, nil
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	if n < 10<<30 {
		return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20)
	}
	return fmt.Sprintf("%d GiB", (n+1<<30-1)>>30)
}

// count writes a number of things: "1 pair", "2 pairs".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// find returns the workload with that name.
func find(loads []workload.Workload, name string) (workload.Workload, error) {
	names := make([]string, len(loads))
	for i, l := range loads {
		if names[i] = l.Describe().Name; names[i] == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("unknown workload %.40q (known: %s)", name, strings.Join(names, ", "))
}

// accept accepts the connections of the sources.
func (s *session) accept() error {
	s.tell(word{Within: traffic.ConnectLimit})
	if err := s.crew.ready(); err != nil {
		return err
	}
	s.enter(ready)
	return nil
}

// await waits until all threads have done their work, unless the source ends the connection, sends something, or the
// deadline passes.
func (s *session) await(by time.Time) error {
	done := make(chan struct{})
	go func() {
		s.crew.wait()
		close(done)
	}()
	within := time.Until(by)
	s.tell(word{Within: max(0, within)})
	select {
	case <-done:
		return nil
	case h := <-s.requests:
		if h.err != nil {
			return h.err
		}
		return fmt.Errorf("request %.20q is %w: the previous request is not answered yet", h.Do, errOrder)
	case <-time.After(within):
		return fmt.Errorf("%w within %v", errHangs, hangLimit)
	}
}

// prepare discards the previous trial.
func (s *session) prepare(trial uint64) error {
	s.crew.all(func(e traffic.Endpoint) { e.Prepare(trial) })
	if err := s.await(time.Now().Add(hangLimit)); err != nil {
		return err
	}
	s.trial = trial
	s.enter(prepared)
	return nil
}

// begin opens a trial.
func (s *session) begin(r request) error {
	switch {
	case r.Trial != s.trial:
		return fmt.Errorf("trial %d is %w: trial %d was prepared", r.Trial, errOrder, s.trial)
	case r.Ahead < 0 || r.Ahead > int64(mostAhead):
		return fmt.Errorf("an opening in %v (valid: 0 to %v)", time.Duration(r.Ahead), mostAhead)
	}
	open := clock.Now() + r.Ahead
	w := traffic.Window{Open: open, Start: open + s.opening.Warm, Close: open + s.opening.Length}
	s.crew.all(func(e traffic.Endpoint) { traffic.Drive(e, r.Trial, w) })
	s.over = time.Now().Add(time.Duration(r.Ahead + s.opening.Length)).Add(hangLimit)
	s.enter(running)
	s.trials++
	return nil
}

// collect waits for the threads and returns their samples.
func (s *session) collect() (answer, error) {
	if err := s.await(s.over); err != nil {
		return answer{}, err
	}
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
	s.enter(ready)
	return answer{Left: l}, nil
}

// probe closes the endpoints and answers whatever arrives at the first port.
func (s *session) probe() error {
	s.crew.end()
	s.crew = nil
	var err error
	s.mirror, err = proof.NewMirror(s.first, s.far)
	s.enter(probing)
	return err
}
