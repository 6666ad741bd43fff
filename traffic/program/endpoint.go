package program

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
	// listenLimit is how long a server may take to listen: less than what the other threads of its trial wait for it at
	// the gate (board.go).
	listenLimit = 700 * time.Millisecond
	// listenPoll is how often it is looked for.
	listenPoll = 2 * time.Millisecond
	// othersLimit is how long it may go on trying to while somebody else has its port: as long as it takes to say so.
	othersLimit = 200 * time.Millisecond

	// endLimit is how long a killed program is waited for at the end of its trial.
	endLimit = 100 * time.Millisecond

	// barely is how many times shorter than its trial the time may be in which a thread sees to a server.
	barely = 10

	// leavePoll is how often a server's client is looked for.
	leavePoll = 20 * time.Millisecond
	// surelyGone is how often in a row it must not be found.
	surelyGone = 3

	// quitAhead is how long before the close of a trial a server that does not end by itself is told to: the traffic is
	// over by then.
	quitAhead = 200 * time.Millisecond

	// The CPU time of a program is read at these shares of the time in which its traffic flows, so that neither its start
	// nor the writing of its results counts.
	busyFrom, busyTo = 0.2, 0.9
)

// A Role is what one end of a pair runs in each trial. Servers ([Role.Listens]) are started before the trial opens and
// clients when it has opened; all of them end with it, so that nothing stands, or spins, between two turns.
type Role struct {
	// By says who starts it: "driver sockperf", "kv with server redis".
	By string
	// Program is what is looked up in PATH, and Package what Debian calls the package that holds it, "" where nobody
	// knows. With Args nil there need be none.
	Program, Package string
	// Called is what failures call it; "": the program, client or server.
	Called string
	// Local is where a server listens.
	Local netip.AddrPort
	// Congestion is the congestion control that this end's streams are to have, where the program has no option for it:
	// they get it from outside as soon as they are there. Streams is how many there are when traffic flows, connections
	// that control the program included.
	Congestion string
	Streams    int
	// Options are those of a server's listening TCP socket, which gets them from outside as soon as it is there: its
	// connections inherit them.
	Options sock.Options
	// Files are handed to the program, which finds them at [FilePath]. They are closed with the endpoint.
	Files []*os.File
	// Listens is the protocol of the socket at Local by which a server is known to be ready: "udp" or "tcp". "" is a
	// client.
	Listens string
	// Settle is how long a server takes to be ready that has no such socket: less than listenLimit. Else 0.
	Settle time.Duration
	// Stop is how the program is brought to its end.
	Stop Stop
	// Args are the program's arguments. A client's traffic lasts so many seconds. Where it is nil nothing is started at
	// this end: its kernel does all there is to do.
	Args func(seconds int) []string
	// Before, if set, is called in the container's network namespace before each start.
	Before func() error
	// Fill, if set, is called in the container's network namespace when a server listens, before its trial opens: it has
	// what it is to serve from there.
	Fill func() error
	// Log is a file that the program writes besides: [LogPath]. It is handed to Read.
	Log bool
	// Start is how long the program takes from its start to its traffic, End how long it may take from the end of that to
	// its own: a trial is over when both ends have ended, so that only a server that does not end by itself makes it last
	// that long.
	Start, End time.Duration
	// Read fills the sample and the recorder (of a source of a workload that measures latency, else nil) from what the
	// program has said. Span it sets to the time in ns in which traffic flowed; the endpoint makes CPU of that.
	Read func(Said, *traffic.Sample, *traffic.Recorder) error
	// Reason, if set, finds in what the program wrote to its standard output why it gave up, "" if that is not there.
	Reason func(io.Reader) string
	// Lifelong says that nobody knows when its traffic flows: its CPU time is that of its whole life.
	Lifelong bool
	// Records says that there are latencies, and Of what they are of.
	Records bool
	Of      traffic.Quantity
	// Granted is what the kernel grants a socket like the program's.
	Granted sock.Facts
}

// Stop is how a program is brought to its end.
type Stop int

const (
	// EndsItself needs nothing.
	EndsItself Stop = iota
	// Interrupted ends when it gets SIGINT, and then says what it has counted.
	Interrupted
	// Killed would not end, and has nothing to say: it is not read.
	Killed
	// Serves is there for the whole trial, whose traffic is that of somebody else, and is killed when the drain is over.
	// It is not read: Start, End and Read mean nothing, and its CPU time is that from the opening to the close.
	Serves
	// Asked gets SIGINT, and is killed where that does not end it. It is read however it ends then; where there is no Read
	// it is not.
	Asked
)

// Said is what a program has left of one trial.
type Said struct {
	Seconds int       // that traffic was to last
	Stdout  io.Reader //
	Log     io.Reader // nil where there is none
}

// LogPath is the file that a program with [Role.Log] writes to. It is memory.
const LogPath = "/proc/self/fd/3"

// serves says whether the program is there before the trial opens.
func (r Role) serves() bool { return r.Listens != "" || r.Settle > 0 }

// Shortest is the length of a trial in which traffic flows for one second.
func (r Role) Shortest() time.Duration { return time.Second + r.Start + r.End }

// Open makes an endpoint of a role. The calling thread is inside the container's network namespace.
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

// endpoint runs a program in each trial. Its thread starts it and waits for it in the kernel; what it said is read
// between blocks.
type endpoint struct {
	role     Role
	path     string
	home     *os.File // the container's namespace
	sample   traffic.Sample
	recorder *traffic.Recorder

	mu      sync.Mutex // of child and log: an endpoint may be closed while its thread hangs
	child   *process.Child
	log     *os.File
	seconds int
	busy    cores  // while traffic flowed
	served  cores  // of one that serves, from the opening to the close
	span    int64  // ns of that
	killed  bool   // as its role wants it
	asked   bool   // to end, and it had not by itself
	overdue string // what it did not do in time
}

func (e *endpoint) Sample() *traffic.Sample { return &e.sample }
func (e *endpoint) Recorders() (r traffic.Recorders) {
	r[e.role.Of] = e.recorder
	return r
}
func (e *endpoint) Facts() (sock.Facts, error) { return e.role.Granted, nil }

// Close implements [traffic.Endpoint]: nothing that it started is left.
func (e *endpoint) Close() {
	e.discard()
	_ = e.home.Close()
	for _, f := range e.role.Files {
		_ = f.Close()
	}
}

// discard ends what runs and forgets what it said.
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

// Prepare implements [traffic.Endpoint]: a server is there, and listens, before the trial opens.
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
		server.Wait(clock.Now() + int64(e.role.Settle)) // why it has ended, if it has, it says itself
		return
	}
	e.overdue = e.listen(server)
}

// listen waits until the server listens, and says where it does not. One that has ended says why itself.
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

// Run implements [traffic.Endpoint]. It allocates, as one has to who starts programs: what it measures happens
// elsewhere.
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

// end kills a program. What it held is given back before the next trial begins: that takes CPU time, too.
func end(child *process.Child) {
	child.Signal(syscall.SIGKILL)
	child.Wait(clock.Now() + int64(endLimit))
}

// wait lets a server run for its trial.
func (e *endpoint) wait(w traffic.Window) {
	before, from := e.child.Usage(), clock.Now()
	if e.child.Wait(w.Close) {
		return // what it says is the reason
	}
	// Where the CPU is full the thread comes late, and what it has seen stands for all of the trial. After the close there
	// is nothing to serve.
	e.served, e.span = per(e.child.Usage().Minus(before), time.Duration(max(1, w.Close-from))), w.Close-w.Open
	if w.Close-from < (w.Close-w.Open)/barely {
		e.overdue = fmt.Sprintf("could not be observed: its thread had no CPU for %v of a trial of "+
			"%v", time.Duration(from-w.Open),
			time.Duration(w.Close-w.Open))
	}
	e.killed = !e.child.Wait(w.Close + int64(traffic.DrainLimit))
}

// attend lets the program run until it ends, and says what it did not do in time.
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
			if u := child.Usage().Minus(before); u.Run >= 0 { // else something that it had started has ended
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

// congest gives the program's streams their congestion control, and says what it did not do in time.
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
			return "" // why it has ended, if it has, it says itself
		}
	}
	return "did not begin a stream in time"
}

// serve lets a server run that does not end by itself, until its client's connections are gone or, where it has none or
// they were not seen while traffic flowed, until the deadline. It says whether it ended all the same.
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
	// The kernel's list is no snapshot: a connection can be missing from it while others come and go.
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

// Collect implements [traffic.Collector]: it reads what the program has said.
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
	// or its thread woke up too late to read it: the program's whole run time, start included
	if e.busy.run == 0 || e.role.Lifelong {
		e.busy = per(e.child.Usage(), time.Duration(e.seconds)*time.Second)
	}
	e.sample.CPU, e.sample.User = int64(e.busy.run*float64(e.sample.Span)), int64(e.busy.user*float64(e.sample.Span))
}

// cores are how many CPUs a program kept busy, and of these those outside the kernel.
type cores struct{ run, user float64 }

func per(u process.Usage, d time.Duration) cores {
	return cores{u.Run.Seconds() / d.Seconds(), u.User.Seconds() / d.Seconds()}
}

// name says which program it is: "sockperf client".
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

// What is quoted of a program's last words.
const (
	lastLines = 3
	lastBytes = 300
)

// lastWords is why the program gave up: the reason that it gives, or the end of what it said on standard error, or
// where that is nothing on standard output, in one line. Where it did not end by itself what it said last on standard
// output is no reason.
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

// plain leaves out what only a terminal understands: control characters and the sequences of colours (ECMA-48, 5.4).
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
