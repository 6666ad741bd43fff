package drivertest

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// disturb calls a function that disturbs the program after its trial has begun.
type disturb struct {
	traffic.Endpoint
	next *func()
}

func (d disturb) Run(trial uint64, w traffic.Window) {
	if f := *d.next; f != nil {
		go f()
	}
	d.Endpoint.Run(trial, w)
}

func (d disturb) Collect() { d.Endpoint.(traffic.Collector).Collect() }

// disturbed checks that a hanging server, a killed client and a taken port each make a trial fail in time with that
// reason, and that the next trial is sound.
func disturbed(t *testing.T, d driver.Driver, c Case) {
	c.Pairs = 1
	length := d.Trial(c.Load.Describe(), resolve(t, c))
	var next func()
	r := newRig(t, d, c, length, func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
		if side == workload.Source {
			return disturb{e, &next}
		}
		return e
	})
	fails := func(what string, want ...string) {
		t.Helper()
		r.fails(t, what, length, want...)
	}
	client, server := d.Describe().Program, c.server(d.Describe())

	if c.Load.Describe().Alone || c.embedded(d.Describe()) {
		next = func() {
			time.Sleep(500 * time.Millisecond)
			signalAll(t, client, syscall.SIGSTOP, 1)
		}
		fails("hanging program", client+" ")
		next = func() {
			time.Sleep(500 * time.Millisecond)
			signalAll(t, client, syscall.SIGKILL, 1)
		}
		fails("killed program", client+" client ended with signal: killed")
		next = nil
		r.sound(t, c)
		return
	}
	next = func() {
		time.Sleep(300 * time.Millisecond)
		signalAll(t, server, syscall.SIGSTOP, 1)
	}
	fails("hanging server", client+" ")

	next = func() {
		time.Sleep(500 * time.Millisecond)
		programs, each := []string{server, client}, 1
		if client == server {
			programs, each = programs[:1], 2
		}
		// a program that is stopped does not end because the other has ended
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, p := range programs {
				signalAll(t, p, sig, each)
			}
		}
	}
	fails("killed programs", client+" client ended with signal: killed", server+" server ended with signal: killed")

	next = nil
	end := r.take(t)
	fails("port taken", server+" server", c.Taken)
	end()
	r.sound(t, c)
}

// fails makes a trial that has to fail in time, with a reason that contains the wanted texts.
func (r *rig) fails(t *testing.T, what string, length time.Duration, want ...string) {
	t.Helper()
	began := time.Now()
	trial, _ := r.Trial(t)
	reason := trial.Failure()
	for _, w := range want {
		if !strings.Contains(reason, w) {
			t.Errorf("%s: the trial failed with %q, want %q", what, reason, w)
		}
	}
	if took := time.Since(began); took > length+2*time.Second {
		t.Errorf("%s: the trial took %v", what, took)
	}
	t.Logf("%s: %s", what, reason)
	r.nothingLeft(t)
}

// greeting is what another server sends to its clients.
const greeting = "SSH-2.0-OpenSSH_9.2\r\n"

// take occupies the port of the sink, over UDP and TCP, with a server of another kind until end is called.
func (r *rig) take(t *testing.T) (end func()) {
	t.Helper()
	var streams net.Listener
	var datagrams net.PacketConn
	if err := r.do(workload.Sink, func() (err error) {
		if streams, err = net.Listen("tcp", r.sink.String()); err != nil { //nolint:noctx // it takes no time
			return err
		}
		datagrams, err = net.ListenPacket("udp", r.sink.String()) //nolint:noctx // it takes no time
		return err
	}); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 1<<16)
		for {
			_, from, err := datagrams.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo([]byte(greeting), from)
		}
	}()
	go func() {
		for {
			c, err := streams.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(greeting))
			go func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	}()
	return func() {
		_ = streams.Close()
		_ = datagrams.Close()
	}
}

// absent is a sink that does nothing.
type absent struct{ traffic.Endpoint }

func (absent) Prepare(uint64)             {}
func (absent) Run(uint64, traffic.Window) {}
func (absent) Collect()                   {}

func newAbsent(t *testing.T, d driver.Driver, c Case) (r *rig, length time.Duration) {
	t.Helper()
	c.Pairs = 1
	length = d.Trial(c.Load.Describe(), resolve(t, c))
	return newRig(t, d, c, length, func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
		if side == workload.Sink {
			return absent{e}
		}
		return e
	}), length
}

// nobodyThere checks that a client reports that its server does not run.
func nobodyThere(t *testing.T, d driver.Driver, c Case) {
	r, length := newAbsent(t, d, c)
	r.fails(t, "nobody there", length, d.Describe().Program+" client")
}

// stranger checks that a client of another kind of server, or of one of another version, fails in time with a reason.
func stranger(t *testing.T, d driver.Driver, c Case) {
	r, length := newAbsent(t, d, c)
	end := r.take(t)
	defer end()
	r.fails(t, "stranger", length, d.Describe().Program+" client")
}

// nonsense checks programs that have the right names and print text that cannot be parsed.
func nonsense(t *testing.T, d driver.Driver, c Case) {
	dir := t.TempDir()
	for _, name := range []string{d.Describe().Program, c.server(d.Describe())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '<html>'; echo ELAPSED_TIME=NaN\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	c.Pairs = 1
	length := d.Trial(c.Load.Describe(), resolve(t, c))
	newRig(t, d, c, length, nil).fails(t, "nonsense", length, d.Describe().Program+" client")
}

// children lists the child processes of this one whose program has that name. "" lists all.
func children(t testing.TB, program string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		t.Fatalf("list children: %v, %v", files, err)
	}
	var pids []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // that thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if err == nil && (program == "" || strings.TrimSpace(string(name)) == program) {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// signalAll sends a signal to the first processes of the trial with that program, as many as wanted. Fewer are an
// error. The server is the first.
func signalAll(t testing.TB, program string, s syscall.Signal, want int) {
	pids := children(t, program)
	if len(pids) < want {
		t.Errorf("%d processes %s, want %d", len(pids), program, want)
		return
	}
	for _, pid := range pids[:want] {
		if err := syscall.Kill(pid, s); err != nil {
			t.Error(err)
		}
	}
}
