package byhand

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/process"
)

// SessionCommand is the command of a session's process: this program is started with this word and the inherited files.
// See [ServeSession].
const SessionCommand = "sink-session"

// connectionFile is the name of the connection among the inherited files of a session.
const connectionFile = "connection"

// terms is the first line that a session reads. If the end of the input follows, the session ends with its trial.
type terms struct {
	Peer    string        `json:"peer"`
	Version string        `json:"version"`
	CPUs    []int         `json:"cpus"`
	Memory  int64         `json:"memory"` // bytes that it may hold
	Ports   int           `json:"ports"`  // where its ports begin, after the sink's own port
	Time    time.Duration `json:"time"`   // how long it is served if others wait
}

// word is a message from a session to the sink, one a line.
type word struct {
	Say    string        `json:"say,omitempty"`    // for the user
	Failed string        `json:"failed,omitempty"` // likewise; the session ends
	Within time.Duration `json:"within,omitempty"` // the session reports again by then, or it hangs
	Trials int           `json:"trials,omitempty"` // measured so far
}

const (
	// startLimit is how long a session's process may take to begin.
	startLimit = 10 * time.Second
	// slack is the tolerance for a late report of a session.
	slack = 5 * time.Second
	// crowdedPoll is how often the sink checks whether somebody waits for the seat of a source whose time is over.
	crowdedPoll = time.Second
	// traceSize is how much of a process's output before its death is kept, in bytes.
	traceSize = 8 << 10
)

// session serves a source from a seat, in its own process. A fault there ends only that process, and its memory is
// released with it. It returns how many trials were measured.
func (s *Sink) session(ctx context.Context, l line, seat int) (trials int, err error) {
	fail := func(err error) (int, error) {
		err = fmt.Errorf("%w: %w%s", errStart, err, hint(err))
		s.refuse(l, err)
		s.Say(fmt.Sprintf("%s cannot be served: %v", l.peer, err))
		return 0, err
	}
	tcp, ok := l.conn.(*net.TCPConn)
	if !ok {
		return fail(fmt.Errorf("its connection is a %T", l.conn))
	}
	own, err := tcp.File()
	if err != nil {
		return fail(err)
	}
	defer own.Close()
	cmd := exec.Command("/proc/self/exe", SessionCommand)
	cmd.Args[0] = "nettoll"
	process.Pass(cmd, map[string]*os.File{connectionFile: own})
	trace := &beginning{most: traceSize}
	cmd.Stderr = trace
	in, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := process.Start(cmd, process.Options{}); err != nil {
		return fail(err)
	}
	t := terms{
		Peer: l.peer, Version: s.Version, CPUs: s.CPUs, Memory: s.Memory / int64(s.Sessions),
		Ports: 1 + seat*MostPairs*sinkPorts, Time: s.Time,
	}
	_ = json.NewEncoder(in).Encode(t) // fails if the process has died, which is reported below
	trials, failed, killed := s.follow(ctx, out, in, cmd.Process)
	_ = in.Close()
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return trials, ctx.Err()
	case failed != "":
		return trials, errors.New(failed)
	case killed:
		err = errors.New("its process did not report in time")
	case err != nil:
		err = explainEnd(err, trace.String(), t.Memory)
	default:
		return trials, nil
	}
	s.Say(fault(l.peer, err.Error()))
	_ = l.say(answer{Error: "this session has failed in the sink: " + err.Error()})
	return trials, err
}

// follow shows the user the messages of a session until it ends, or hangs and is killed. It lets the session end early
// if its time is over and somebody waits.
func (s *Sink) follow(ctx context.Context, out io.Reader, in io.Closer, p *os.Process) (
	trials int, failed string, killed bool,
) {
	words := make(chan word)
	go func() {
		defer close(words)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var w word
			if json.Unmarshal(lines.Bytes(), &w) == nil {
				words <- w
			}
		}
	}()
	began := time.Now()
	hangs, poll := time.NewTimer(startLimit), time.NewTicker(crowdedPoll)
	defer hangs.Stop()
	defer poll.Stop()
	ended := ctx.Done()
	for {
		select {
		case w, more := <-words:
			if !more {
				return trials, failed, killed
			}
			for _, text := range []string{w.Say, w.Failed} {
				if text != "" {
					s.Say(text)
				}
			}
			if w.Failed != "" {
				failed = w.Failed
			}
			trials = max(trials, w.Trials)
			hangs.Reset(w.Within + slack)
		case <-hangs.C:
			killed = true
			_ = p.Kill() // it may have ended just now
		case <-ended:
			ended = nil
			_ = p.Kill()
		case <-poll.C:
			if time.Since(began) > s.Time && s.queue.crowded() {
				_ = in.Close()
			}
		}
	}
}

// beginning keeps the first bytes that are written to it.
type beginning struct {
	mu   sync.Mutex
	text []byte
	most int
}

// Write never returns an error.
func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p[:min(len(p), b.most-len(b.text))]...)
	return len(p), nil
}

func (b *beginning) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// fault returns the message to the user about a session that ended by an error of nettoll, in one line.
func fault(peer, why string) string {
	first, _, _ := strings.Cut(why, "\n")
	return fmt.Sprintf("the session with %s has ended by a fault: %s", peer, plain(first))
}

// explainEnd returns how a process died, from its output before that: the panic with its place in this program, or that
// memory ran out.
func explainEnd(err error, trace string, memory int64) error {
	const module = "github.com/nettoll/nettoll/"
	why, where, folder := "", "", ""
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "fatal error: runtime: out of memory"),
			strings.HasPrefix(line, "fatal error: out of memory"), strings.HasPrefix(line, "runtime: out of memory"):
			return fmt.Errorf("%w %s", errOutOfMemory, bytesText(memory))
		case why == "" && (process.Crash(line) != "" || strings.HasPrefix(line, "nettoll ")):
			why = line
		case why == "" || where != "":
		case folder != "": // the line after a function of nettoll
			file, _, _ := strings.Cut(line, " +0x")
			where = path.Join(folder, path.Base(file))
		case strings.HasPrefix(line, module): // the folder is in its name, whatever the folder of the checkout is called
			function, _, _ := strings.Cut(line[len(module):], "(")
			name, _, _ := strings.Cut(path.Base(function), ".")
			folder = path.Join(path.Dir(function), name)
		}
	}
	if why == "" {
		return err
	}
	// the process has a memory limit of its own
	if reached := process.Reached(why); reached != "" && strings.Contains(why, "OS thread") {
		return fmt.Errorf("%s: %s", reached, why)
	}
	if where != "" {
		why += " (" + where + ")"
	}
	return errors.New(why)
}
