package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/host/agent"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/proof/attack"
)

const (
	// handLimit is how long a client may take to send its greeting.
	handLimit = 5 * time.Second
	// handed is how many files a client hands over at most: its standard files.
	handed = 3
	// lastWords is how long clients may take to read answers when the lab is gone.
	lastWords = time.Second
)

// A Builder builds the lab described by a spec and the text of an experiment.
type Builder func(ctx context.Context, spec Spec, experiment []byte) (*control.LiveLab, Judge, error)

// A Judge attacks the controls of the lab, and says how the lab fares with what came of attacks on it. It calls say
// with what it does.
type Judge func(ctx context.Context, got control.Attacked, attacks []attack.Attack, say func(string)) (control.Fate,
	error)

// owner is the process that keeps a lab.
type owner struct {
	name  string
	dir   *owned.Dir
	entry Entry
	lab   *control.LiveLab
	judge Judge
	log   io.Writer
	doing atomic.Value // a string: what attacks the lab, "" if nothing does

	down   chan string   // the reason for its end
	ending chan struct{} // closed when it begins to take the lab down
	gone   chan struct{} // closed when nothing of the lab is left
	conns  sync.WaitGroup
}

// Own is the main function of an owner, the command [OwnerCommand] with its arguments. It builds the lab and answers at
// its socket. It takes the lab down on request, when its time is over, or when ctx ends. It logs what happens to log.
func Own(ctx context.Context, args []string, build Builder, log io.Writer) error {
	given, err := agent.Args(args)
	if err != nil {
		return err
	}
	files, err := process.Inherited(given.Files)
	if err != nil {
		return err
	}
	ready, wanted := files[readyName], files[wantedName]
	at := given.Name
	if at == "" || ready == nil || wanted == nil || files[lockName] == nil {
		return errors.New("only nettoll lab up starts it")
	}
	r, dir, err := open(at)
	if err != nil {
		answer(ready, verdict{Error: err.Error()})
		return err
	}
	defer dir.Close()
	o := &owner{
		name: filepath.Base(at), dir: dir, log: log, down: make(chan string, 1), ending: make(chan struct{}),
		gone: make(chan struct{}),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stays := make(chan struct{})
	go func() {
		if n, _ := wanted.Read(make([]byte, 1)); n == 0 {
			cancel(errors.New("the client that asked for it is gone"))
			return
		}
		close(stays)
	}()
	listener, err := o.begin(ctx, build)
	if err != nil {
		o.say("it was not built: %v", err)
		answer(ready, verdict{Error: err.Error()})
		return errors.Join(err, r.discard(o.name, files[lockName]))
	}
	answer(ready, verdict{})
	select {
	case <-stays:
		o.say("%s runs until %s", o.entry.ID, o.entry.Until.Format(time.DateTime))
	case <-ctx.Done():
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go o.serve(serving, listener)
	over := time.NewTimer(time.Until(o.entry.Until))
	defer over.Stop()
	var why string
	select {
	case why = <-o.down:
	case <-over.C:
		why = "its time is over"
	case <-ctx.Done():
		why = context.Cause(ctx).Error()
	}
	o.say("taken down: %s", why)
	close(o.ending)
	if err := o.lab.Close(); err != nil {
		o.say("%v", err)
	}
	err = r.discard(o.name, files[lockName])
	close(o.gone)
	_ = listener.Close()
	answered := make(chan struct{})
	go func() {
		o.conns.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-time.After(lastWords):
	}
	return err
}

// answer reports to the client that waits for the lab. A client that is gone gets no report.
func answer(to *os.File, v verdict) {
	_ = json.NewEncoder(to).Encode(v)
	_ = to.Close()
}

func (o *owner) say(format string, args ...any) {
	fmt.Fprintf(o.log, "%s %s\n", time.Now().Format(time.DateTime), fmt.Sprintf(format, args...))
}

// begin builds the lab, opens its socket and registers it.
func (o *owner) begin(ctx context.Context, build Builder) (_ net.Listener, err error) {
	var spec Spec
	data, err := o.dir.Read(specFile)
	if err == nil {
		err = json.Unmarshal(data, &spec)
	}
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	text, err := o.dir.Read(experimentFile)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if o.lab, o.judge, err = build(ctx, spec, text); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.lab.Close())
		}
	}()
	listener, err := listen(o.dir)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	o.entry = Entry{
		Name: o.name, ID: o.lab.Lab.ID, Stack: spec.Stack, Experiment: o.lab.Experiment,
		Placement: string(o.lab.Lab.Placement),
		Pairs:     o.lab.Lab.Pairs, PID: os.Getpid(), Since: now.Round(time.Second),
		Until: now.Add(spec.Time).Round(time.Second),
	}
	if err := write(o.dir, entryFile, o.entry); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("register the lab: %w", err)
	}
	return listener, nil
}

// open opens the directory of a lab, and the registry that contains it.
func open(path string) (*Registry, *owned.Dir, error) {
	r, err := OpenRegistry(filepath.Dir(path))
	if err != nil {
		return nil, nil, err
	}
	if r.dir == nil {
		return nil, nil, fmt.Errorf("open the directory of the lab: %q is gone", r.path)
	}
	dir, err := r.dir.Dir(filepath.Base(path))
	if err != nil {
		return nil, nil, fmt.Errorf("open the directory of the lab: %w", err)
	}
	return r, dir, nil
}

// listen opens the socket of a lab.
func listen(dir *owned.Dir) (net.Listener, error) {
	var l *net.UnixListener
	err := atSocket(dir, func(at *net.UnixAddr) (err error) {
		l, err = net.ListenUnix("unix", at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen at the socket of the lab: %w", err)
	}
	l.SetUnlinkOnClose(false) // it is removed with its directory
	if err := dir.Chmod(socketFile, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen at the socket of the lab: %w", err)
	}
	return l, nil
}

// atSocket calls f with the address of a lab's socket. The path of a socket has at most 107 bytes (unix(7)). The path
// of a lab may be longer, and may by now lead elsewhere, so the address names the open directory.
func atSocket(dir *owned.Dir, f func(*net.UnixAddr) error) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return f(&net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketFile)})
}

// ours returns an error if the other end of a connection belongs to another user.
func ours(conn *net.UnixConn) error {
	uid, err := process.PeerUser(conn)
	if err == nil && uid != os.Geteuid() {
		err = fmt.Errorf("it belongs to user %d, not to user %d", uid, os.Geteuid())
	}
	return err
}

// serve answers every client that connects.
func (o *owner) serve(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			o.say("accept: %v", err)
			time.Sleep(handLimit / 100) // probably out of file descriptors
			continue
		}
		o.conns.Go(func() {
			if err := o.answer(ctx, conn.(*net.UnixConn)); err != nil {
				o.say("%v", err)
			}
		})
	}
}

// The methods of an owner.
const (
	methodGraph  = "graph"
	methodPlaces = "places"
	methodRun    = "run"
	methodAttack = "attack"
	methodDoing  = "doing"
	methodSignal = "signal"
	methodDown   = "down"
)

type none struct{}

func (o *owner) answer(ctx context.Context, conn *net.UnixConn) error {
	if err := ours(conn); err != nil {
		_ = conn.Close()
		return fmt.Errorf("refuse a client: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(handLimit)) // the deadline of an open socket
	files, err := process.Taken(conn, handed)
	if err != nil {
		_ = conn.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrClosed) {
			return nil
		}
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	c := &command{owner: o, files: files, started: make(chan struct{})}
	defer c.close()
	return protocol.Serve(ctx, conn, conn, protocol.Methods{
		methodGraph:  protocol.Method(func(ctx context.Context, _ none) (*Graph, error) { return o.graph(ctx) }),
		methodPlaces: protocol.Method(o.places),
		methodRun:    protocol.Method(c.run),
		methodAttack: protocol.Method(o.attack),
		methodDoing: protocol.Method(func(context.Context, none) (string, error) {
			what, _ := o.doing.Load().(string)
			return what, nil
		}),
		methodSignal: protocol.Method(c.signal),
		methodDown:   protocol.Method(o.takeDown),
	})
}

// takeDown ends the lab and answers when nothing is left of it.
func (o *owner) takeDown(ctx context.Context, _ none) (none, error) {
	select {
	case o.down <- "nettoll lab down":
	default: // another client was first
	}
	select {
	case <-o.gone:
		return none{}, nil
	case <-ctx.Done():
		return none{}, ctx.Err()
	}
}

// places lists the places that a client can name.
func (o *owner) places(context.Context, none) ([]string, error) {
	var names []string
	for _, p := range places(o.lab) {
		names = append(names, p.name)
	}
	return names, nil
}

// hostName returns the short name of a host: "h1", "underlay".
func hostName(h control.LiveHost) string {
	if number, ok := strings.CutPrefix(h.Name(), "host"); ok {
		return "h" + number
	}
	return h.Name()
}
