package program

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// listenLimit is how long a server may take to listen: less than the other threads of its trial wait for it at the
	// gate (board.go).
	listenLimit = 700 * time.Millisecond
	// listenPoll is the time between two checks.
	listenPoll = 2 * time.Millisecond
	// othersLimit is how long the server may keep trying while another process has its port: long enough to report
	// that.
	othersLimit = 200 * time.Millisecond

	// endLimit is how long to wait for a killed program at the end of its trial.
	endLimit = 100 * time.Millisecond

	// barely is the factor by which the time that a thread observes a server may be shorter than its trial.
	barely = 10

	// leavePoll is the time between two checks for a server's client.
	leavePoll = 20 * time.Millisecond
	// surelyGone is how often in a row the client must not be found.
	surelyGone = 3

	// quitAhead is how long before the close of a trial a server that does not end by itself is asked to end: the
	// traffic is over by then.
	quitAhead = 200 * time.Millisecond

	// The shares of the time with traffic at which the CPU time of a program is read, so that neither its start nor the
	// writing of its results counts.
	busyFrom, busyTo = 0.2, 0.9
)

// A Role is what one end of a pair runs in each trial. Servers ([Role.Listens]) are started before the trial opens, and
// clients when it has opened. All of them end with it, so that none exists, or spins, between two turns.
type Role struct {
	// By names what starts it: "driver sockperf", "kv with server redis".
	By string
	// Program is looked up in PATH. Package is the name of its Debian package, "" if unknown. If Args is nil, neither
	// is needed.
	Program, Package string
	// Called is its name in failures; "" stands for the program with client or server.
	Called string
	// Local is the address at which a server listens.
	Local netip.AddrPort
	// Congestion is the congestion control for this end's streams if the program has no option for it: it is set from
	// outside as soon as they exist. Streams is their number when traffic flows, including connections that control the
	// program.
	Congestion string
	Streams    int
	// Options are the options of a server's listening TCP socket. They are set from outside as soon as it exists, and
	// its connections inherit them.
	Options sock.Options
	// Files are passed to the program, which finds them at [FilePath]. They are closed with the endpoint.
	Files []*os.File
	// Listens is the protocol, "udp" or "tcp", of the socket at Local that shows that a server is ready. "" means a
	// client.
	Listens string
	// Settle is how long a server without such a socket takes to be ready: less than listenLimit. For others it is 0.
	Settle time.Duration
	// Stop says how the program ends.
	Stop Stop
	// Args returns the program's arguments. The traffic of a client lasts this many seconds. If Args is nil, nothing is
	// started at this end: its kernel does all the work.
	Args func(seconds int) []string
	// Before, if set, is called in the container's network namespace before each start.
	Before func() error
	// Fill, if set, is called in the container's network namespace when a server listens, before its trial opens. It
	// provides the data to serve.
	Fill func() error
	// Log says that the program also writes a file, [LogPath], which Read receives.
	Log bool
	// Start is how long the program takes from its start to its traffic. End is how long it may take from the end of
	// the traffic to its own end. A trial is over when both ends have ended, so only a server that does not end by
	// itself uses all that time.
	Start, End time.Duration
	// Read fills the sample and the recorder from the program's output. The recorder is nil unless this is a source of
	// a workload that measures latency. Read sets Span to the time in ns in which traffic flowed; the endpoint computes
	// CPU from that.
	Read func(Said, *traffic.Sample, *traffic.Recorder) error
	// Reason, if set, finds in the program's standard output why it gave up; "" if the output has no reason.
	Reason func(io.Reader) string
	// Lifelong says that it is unknown when its traffic flows: its CPU time is that of its whole life.
	Lifelong bool
	// Records says that there are latencies, and Of says which quantity they are.
	Records bool
	Of      traffic.Quantity
	// Granted is what the kernel grants to a socket like the program's.
	Granted sock.Facts
}

// Stop says how a program ends.
type Stop int

const (
	// EndsItself is a program that ends by itself.
	EndsItself Stop = iota
	// Interrupted is a program that ends on SIGINT, and then reports its counts.
	Interrupted
	// Killed is a program that would not end and has no results: its output is not read.
	Killed
	// Serves is a program that exists for the whole trial and serves the traffic of others. It is killed when the drain
	// is over. Its output is not read: Start, End and Read have no meaning. Its CPU time is that from the opening to
	// the close.
	Serves
	// Asked is a program that gets SIGINT, and is killed if that does not end it. Its output is then read in any case,
	// unless Read is nil.
	Asked
)

// Said is the output of a program for one trial.
type Said struct {
	Seconds int       // the duration of the traffic
	Stdout  io.Reader //
	Log     io.Reader // nil if there is none
}

// longest is more than any trial lasts, in s.
const longest = 1 << 20

// Lasted returns a run time that a program reports, in ns. A time that rounds to 0 ns is as invalid as one that is
// longer than any trial.
func Lasted(seconds float64) (int64, error) {
	ns := math.Round(seconds * 1e9)
	if !(ns >= 1 && seconds <= longest) {
		return 0, fmt.Errorf("reported a run time of %g s", seconds)
	}
	return int64(ns), nil
}

// LogPath is the file to which a program with [Role.Log] writes. It is in memory.
const LogPath = "/proc/self/fd/3"

// serves reports whether the program exists before the trial opens.
func (r Role) serves() bool { return r.Listens != "" || r.Settle > 0 }

// Shortest returns the length of a trial in which traffic flows for one second.
func (r Role) Shortest() time.Duration { return time.Second + r.Start + r.End }

// Open makes an endpoint for a role. The calling thread must be in the container's network namespace.
func (r Role) Open() (traffic.Endpoint, error) {
	if r.Args == nil && r.Program == "" {
		return &nobody{granted: r.Granted}, nil
	}
	path, err := Needed{By: r.By, Program: r.Program, Package: r.Package}.Locate()
	if err != nil {
		return nil, err
	}
	if r.Args == nil {
		return &nobody{granted: r.Granted}, nil
	}
	home, err := netns.Current()
	if err != nil {
		return nil, err
	}
	e := &endpoint{role: r, path: path, home: home}
	if r.Records {
		e.recorder = traffic.NewRecorder()
	}
	return e, nil
}

// endpoint runs a program in each trial. Its thread starts the program and waits for it in the kernel. The output is
// read between blocks.
type endpoint struct {
	role     Role
	path     string
	home     *os.File // the container's namespace
	sample   traffic.Sample
	recorder *traffic.Recorder

	mu      sync.Mutex // protects child and log: an endpoint may be closed while its thread hangs
	child   *process.Child
	log     *os.File
	seconds int
	busy    cores  // while traffic flowed
	served  cores  // for a program that serves, from the opening to the close
	span    int64  // ns of that time
	killed  bool   // as its role requires
	asked   bool   // it was asked to end, and had not ended by itself
	overdue string // what it did not do in time
}

func (e *endpoint) Sample() *traffic.Sample { return &e.sample }
func (e *endpoint) Recorders() (r traffic.Recorders) {
	r[e.role.Of] = e.recorder
	return r
}
func (e *endpoint) Facts() (sock.Facts, error) { return e.role.Granted, nil }

// Close implements [traffic.Endpoint]. Nothing that it started is left.
func (e *endpoint) Close() {
	e.discard()
	_ = e.home.Close()
	for _, f := range e.role.Files {
		_ = f.Close()
	}
}

// discard ends the running program and discards its output.
func (e *endpoint) discard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.child != nil {
		_ = e.child.Close() // it is killed in any case
	}
	if e.log != nil {
		_ = e.log.Close()
	}
	e.child, e.log = nil, nil
}

// Prepare implements [traffic.Endpoint]. A server exists and listens before the trial opens.
func (e *endpoint) Prepare(uint64) {
	e.discard()
	e.sample = traffic.Sample{}
	e.busy, e.served, e.span, e.killed, e.asked, e.overdue = cores{}, cores{}, 0, false, false, ""
	if e.recorder != nil {
		e.recorder.Reset()
	}
	if !e.role.serves() {
		return
	}
	server, err := e.start()
	if err != nil {
		e.sample.Failure = err.Error()
		return
	}
	if e.role.Settle > 0 {
		server.Wait(clock.Now() + int64(e.role.Settle)) // if it has ended, its output has the reason
		return
	}
	e.overdue = e.listen(server)
}

// listen waits until the server listens, and returns an error if it does not. For a server that has ended, its output
// has the reason.
func (e *endpoint) listen(server *process.Child) (overdue string) {
	for begin := clock.Now(); ; {
		ok, err := e.ready(server)
		if ok {
			return cmp.Or(e.equip(server), e.fill(server))
		}
		if server.Wait(clock.Now() + int64(listenPoll)) {
			return ""
		}
		switch waited := clock.Now() - begin; {
		case waited > int64(othersLimit) && e.taken(server):
			return fmt.Sprintf("could not listen at %s, which another process uses", e.role.Local)
		case waited > int64(listenLimit):
			return strings.TrimSuffix(fmt.Sprintf("did not listen at %s within %v: %v", e.role.Local, listenLimit, err),
				": <nil>")
		}
	}
}

// start starts the program on the calling thread, in the container's namespace.
func (e *endpoint) start() (child *process.Child, err error) {
	argv := append([]string{e.role.Program}, e.role.Args(e.seconds)...)
	files := slices.Clone(e.role.Files)
	if e.role.Log {
		log, err := process.Memory("log")
		if err != nil {
			return nil, err
		}
		files = append([]*os.File{log}, files...)
	}
	err = netns.Here(int(e.home.Fd()), func() (err error) {
		if e.role.Before != nil {
			if err := e.role.Before(); err != nil {
				return err
			}
		}
		child, err = process.Spawn(e.path, argv, append(os.Environ(), "LC_ALL=C"), files...)
		return err
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.child = child
	if e.role.Log {
		e.log = files[0]
	}
	return child, err
}

// Run implements [traffic.Endpoint]. It allocates, as starting programs requires: the measuring happens in the program.
func (e *endpoint) Run(_ uint64, w traffic.Window) {
	if e.sample.Failure != "" {
		return
	}
	if e.role.Stop == Serves {
		if e.overdue == "" {
			e.wait(w)
		}
		end(e.child)
		return
	}
	length := time.Duration(w.Close - w.Open)
	e.seconds = int((length - e.role.Start - e.role.End) / time.Second)
	if e.seconds < 1 {
		e.sample.Failure = fmt.Sprintf("a trial of %v is too short for %s (at least %v)", length, e.role.By,
			e.role.Shortest())
		return
	}
	child := e.child
	if !e.role.serves() {
		var err error
		if child, err = e.start(); err != nil {
			e.sample.Failure = err.Error()
			return
		}
	}
	if e.overdue == "" {
		e.overdue = e.attend(child, w)
	}
	if e.overdue != "" {
		end(child)
	}
}

// end kills a program. Its resources are released before the next trial begins, because that takes CPU time, too.
func end(child *process.Child) {
	child.Signal(syscall.SIGKILL)
	child.Wait(clock.Now() + int64(endLimit))
}

// wait lets a server run for its trial.
func (e *endpoint) wait(w traffic.Window) {
	before, from := e.child.Usage(), clock.Now()
	if e.child.Wait(w.Close) {
		return // its output has the reason
	}
	// If the CPU is busy, the thread runs late, and what it has observed stands for the whole trial. After the close
	// there is nothing to serve.
	e.served, e.span = per(e.child.Usage().Minus(before), time.Duration(max(1, w.Close-from))), w.Close-w.Open
	if w.Close-from < (w.Close-w.Open)/barely {
		e.overdue = fmt.Sprintf("could not be observed: its thread had no CPU for %v of a trial of "+
			"%v", time.Duration(from-w.Open),
			time.Duration(w.Close-w.Open))
	}
	e.killed = !e.child.Wait(w.Close + int64(traffic.DrainLimit))
}

// attend lets the program run until it ends, and returns what it did not do in time.
func (e *endpoint) attend(child *process.Child, w traffic.Window) (overdue string) {
	flow, seconds := w.Open+int64(e.role.Start), float64(e.seconds)*1e9
	if e.role.Congestion != "" {
		if overdue := e.congest(child, flow+int64(busyFrom*seconds)); overdue != "" {
			return overdue
		}
	}
	if !child.Wait(flow + int64(busyFrom*seconds)) {
		before, from := child.Usage(), clock.Now()
		if !child.Wait(flow + int64(busyTo*seconds)) {
			if u := child.Usage().Minus(before); u.Run >= 0 { // otherwise a child process of it has ended
				e.busy = per(u, time.Duration(clock.Now()-from))
			}
		}
	}
	if e.role.Stop != EndsItself {
		if e.serve(child, w.Close-int64(quitAhead)) {
			return ""
		}
		if e.role.Stop == Killed {
			e.killed = true
			end(child)
			return ""
		}
		child.Signal(syscall.SIGINT)
		e.asked = true
	}
	if child.Wait(w.Close) {
		return ""
	}
	if e.role.Stop == Asked {
		end(child)
		return ""
	}
	return fmt.Sprintf("did not end within its trial of %v", time.Duration(w.Close-w.Open))
}

// congest sets the congestion control of the program's streams, and returns what it did not do in time.
func (e *endpoint) congest(child *process.Child, deadline int64) (overdue string) {
	known := map[string]bool{}
	for clock.Now() < deadline {
		fds, err := child.Streams(known)
		for _, fd := range fds {
			s := sock.Socket{FD: fd}
			err = cmp.Or(err, s.SetCongestion(e.role.Congestion))
			s.Close()
		}
		if err != nil && !child.Wait(0) {
			return "did not take another congestion control: " + err.Error()
		}
		if len(known) >= e.role.Streams || child.Wait(clock.Now()+int64(listenPoll)) {
			return "" // if it has ended, its output has the reason
		}
	}
	return "did not begin a stream in time"
}

// serve lets a server that does not end by itself run until its client's connections are gone. If it has none, or if
// they were not seen while traffic flowed, it runs until the deadline. serve reports whether it ended nevertheless.
func (e *endpoint) serve(server *process.Child, deadline int64) (ended bool) {
	connected := func() bool {
		if e.role.Listens != "tcp" {
			return false
		}
		yes, err := procfs.Connected(server.PID(), e.role.Local)
		return yes || err != nil
	}
	if !connected() {
		return server.Wait(deadline)
	}
	// The kernel's list is not a snapshot: a connection can be missing from it while others come and go.
	for missed := 0; clock.Now() < deadline && missed < surelyGone; {
		if server.Wait(min(deadline, clock.Now()+int64(leavePoll))) {
			return true
		}
		missed++
		if connected() {
			missed = 0
		}
	}
	return false
}

// Collect implements [traffic.Collector]. It reads the program's output.
func (e *endpoint) Collect() {
	defer e.discard()
	if e.child == nil {
		return // it did not start, or the trial did not open and is collected again
	}
	defer func() { e.sample.Waited = traffic.Unwatched }()
	if e.sample.Failure != "" {
		return
	}
	if err := e.read(); err != nil {
		e.sample = traffic.Sample{Span: e.sample.Span, Failure: e.name() + " " + err.Error() + e.lastWords()}
		return
	}
	if e.role.Stop == Serves {
		e.sample.CPU, e.sample.User, e.sample.Span = int64(e.served.run*float64(e.span)),
			int64(e.served.user*float64(e.span)), e.span
		return
	}
	// or its thread woke up too late to read it: the whole run time of the program, including its start
	if e.busy.run == 0 || e.role.Lifelong {
		e.busy = per(e.child.Usage(), time.Duration(e.seconds)*time.Second)
	}
	e.sample.CPU, e.sample.User = int64(e.busy.run*float64(e.sample.Span)), int64(e.busy.user*float64(e.sample.Span))
}

// cores is how many CPUs a program kept busy, and the part of them outside the kernel.
type cores struct{ run, user float64 }

func per(u process.Usage, d time.Duration) cores {
	return cores{u.Run.Seconds() / d.Seconds(), u.User.Seconds() / d.Seconds()}
}

// name returns the name of the program and its role: "sockperf client".
func (e *endpoint) name() string {
	switch {
	case e.role.Called != "":
		return e.role.Called
	case e.role.serves():
		return e.role.Program + " server"
	}
	return e.role.Program + " client"
}

func (e *endpoint) read() error {
	if e.overdue != "" {
		return errors.New(e.overdue)
	}
	if e.killed {
		if e.role.Stop == Killed {
			e.sample.Span = int64(e.seconds) * int64(time.Second)
		}
		return nil
	}
	if end := e.child.End(); end != "" && !(e.asked && e.role.Stop == Asked) {
		return fmt.Errorf("ended with %s", end)
	}
	if e.role.Stop == Killed || e.role.Stop == Serves {
		return errors.New("ended before its trial")
	}
	if e.role.Read == nil {
		e.sample.Span = int64(e.seconds) * int64(time.Second)
		return nil
	}
	said := Said{Seconds: e.seconds, Stdout: e.child.Stdout()}
	if e.log != nil {
		said.Log = io.NewSectionReader(e.log, 0, 1<<62)
	}
	return e.role.Read(said, &e.sample, e.recorder)
}

// Limits of quotes from a program's last output.
const (
	lastLines = 3
	lastBytes = 300
)

// lastWords returns why the program gave up, in one line: the reason that it gives, or the end of its standard error
// or, if that is empty, of its standard output. If it did not end by itself, the end of its standard output is not a
// reason.
func (e *endpoint) lastWords() string {
	candidates := []string{quote(e.child.Stderr())}
	if e.role.Reason != nil {
		candidates = append([]string{quote(strings.NewReader(e.role.Reason(e.child.Stdout())))}, candidates...)
	}
	if e.overdue == "" && !e.child.Killed() {
		candidates = append(candidates, quote(e.child.Stdout()))
	}
	if words := cmp.Or(candidates...); words != "" {
		return ": " + words
	}
	return ""
}

func quote(r io.Reader) string {
	var tail process.Tail
	if _, err := io.Copy(&tail, r); err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(tail.String()) {
		if line = strings.Join(strings.Fields(plain(line)), " "); line != "" {
			lines = append(lines, line)
		}
	}
	lines = lines[max(0, len(lines)-lastLines):]
	words := strings.Join(lines, " / ")
	if over := len(words) - lastBytes; over > 0 {
		words = "…" + strings.ToValidUTF8(words[over:], "")
	}
	return words
}

// plain removes control characters and colour sequences for terminals (ECMA-48, 5.4).
func plain(s string) string {
	var b strings.Builder
	escape := false
	for _, r := range strings.ToValidUTF8(s, "?") {
		switch {
		case r == 0x1b:
			escape = true
		case escape:
			escape = r == '[' || r < '@' || r > '~'
		case r < ' ' && r != '\t' && r != '\n' || r == 0x7f:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
