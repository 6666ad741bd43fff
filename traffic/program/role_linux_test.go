package program

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
)

// TestMain is also the program of these tests: "serve ADDRESS HOW".
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3])
		return
	}
	testnet.Main(m)
}

// shortly is the time after which a server misbehaves.
const shortly = 100 * time.Millisecond

func serve(address, how string) {
	fail := func(text string) {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(3)
	}
	switch how {
	case "refuses":
		fail("no such thing")
	case "is deaf":
		time.Sleep(time.Hour)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fail(err.Error())
	}
	switch how {
	case "dies":
		time.Sleep(shortly)
		fail("out of sorts")
	case "ends":
		time.Sleep(shortly)
		return
	case "works":
		for x := uint64(1); x != 0; x += 2 { // keeps a CPU busy: an odd number is never 0
		}
	case "forks": // a child process serves, with the inherited socket
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			fail(err.Error())
		}
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		cmd.ExtraFiles = []*os.File{f}
		if err := cmd.Start(); err != nil {
			fail(err.Error())
		}
		fmt.Println(cmd.Process.Pid)
	case "reads": // the files passed to it
		text, err := os.ReadFile(FilePath(0))
		if err != nil {
			fail(err.Error())
		}
		fail(string(text))
	}
	time.Sleep(time.Hour)
}

// role returns a server that behaves in this way.
func role(t *testing.T, how string) Role {
	t.Helper()
	h, err := link.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lo, err := h.ByName("lo")
	if err == nil && !lo.Up {
		err = h.SetUp(lo.Index, true)
	}
	testnet.Skip(t, err)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	return Role{
		By: "test", Program: self, Called: "server", Local: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), Listens: "tcp",
		Stop: Serves,
		Args: func(int) []string { return []string{"serve", at.String(), how} },
	}
}

// trial runs a trial and returns the sample, and how long it took.
func trial(t *testing.T, e traffic.Endpoint, length time.Duration) (s traffic.Sample, prepared, ran time.Duration) {
	t.Helper()
	began := clock.Now()
	e.Prepare(1)
	prepared = time.Duration(clock.Now() - began)
	now := clock.Now()
	traffic.Drive(e, 1, traffic.Window{Open: now, Start: now, Close: now + int64(length)})
	ran = time.Duration(clock.Now() - now)
	e.(traffic.Collector).Collect()
	return *e.Sample(), prepared, ran
}

// opened opens a role on a thread that is locked until the test ends.
func opened(t *testing.T, r Role) traffic.Endpoint {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	e, err := r.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// A server exists for its trial, and its CPU time is that from the opening to the close. Whatever it does, the trial
// ends in time, with a reason if it fails.
func TestServes(t *testing.T) {
	const length = 300 * time.Millisecond
	for _, tt := range []struct{ how, want string }{
		{"works", ""},
		{"sleeps", ""},
		{"dies", "server ended with exit status 3: out of sorts"},
		{"ends", "server ended before its trial"},
		{"refuses", "server ended with exit status 3: no such thing"},
		{"is deaf", "server did not listen at 127.0.0.1:"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			const late = 200 * time.Millisecond
			e := opened(t, role(t, tt.how))
			watch := witness.Begin(t)
			s, prepared, ran := trial(t, e, length)
			if late := late + watch.Seen(t).Excuse(); prepared > listenLimit+late || ran > length+traffic.DrainLimit+late {
				t.Errorf("it took %v to prepare and %v to run", prepared, ran)
			}
			if tt.want != "" {
				if !strings.HasPrefix(s.Failure, tt.want) {
					t.Errorf("failed with %q, want %q", s.Failure, tt.want)
				}
				return
			}
			if s.Failure != "" {
				t.Fatal(s.Failure)
			}
			busy, most := tt.how == "works", s.Span*5/4+int64(ran-length) // this one goes on working after the close
			if s.Span != int64(length) || (s.CPU > s.Span/20) != busy || (s.User > s.Span/20) != busy || s.CPU > most ||
				s.User > most {
				t.Errorf("run time %v of %v, %v outside the kernel", time.Duration(s.CPU), time.Duration(s.Span),
					time.Duration(s.User))
			}
			if again, _, _ := trial(t, e, length); again.Failure != "" {
				t.Errorf("the second trial: %s", again.Failure)
			}
		})
	}
}

// Child processes of a server count, and end with it, so that the next server can have the port.
func TestServesForks(t *testing.T) {
	const length = 300 * time.Millisecond
	r := role(t, "forks")
	e := opened(t, r)
	for range 3 {
		e.Prepare(1)
		now := clock.Now()
		traffic.Drive(e, 1, traffic.Window{Open: now, Start: now, Close: now + int64(length)})
		said := quote(e.(*endpoint).child.Stdout())
		e.(traffic.Collector).Collect()
		s := e.Sample()
		if s.Failure != "" {
			t.Fatal(s.Failure)
		}
		if s.CPU < s.Span/20 || s.User < s.Span/20 {
			t.Errorf("run time %v of %v, %v outside the kernel", time.Duration(s.CPU), time.Duration(s.Span),
				time.Duration(s.User))
		}
		pid, err := strconv.Atoi(said)
		if err != nil {
			t.Fatal(err)
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
			!strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ") {
			t.Errorf("what the server had started runs on: %s", stat)
		}
	}
}

// A server is filled only when it listens. If that fails, the trial fails.
func TestFill(t *testing.T) {
	var filled int
	var err error
	fill := func() error {
		filled++
		return err
	}
	r := role(t, "sleeps")
	r.Fill = fill
	e := opened(t, r)
	if s, _, _ := trial(t, e, shortly); s.Failure != "" || filled != 1 {
		t.Errorf("failed with %q, filled %d times", s.Failure, filled)
	}
	err = fmt.Errorf("it is full")
	if s, _, _ := trial(t, e, shortly); s.Failure != "server was not filled: it is full" {
		t.Errorf("failed with %q", s.Failure)
	}
	r = role(t, "refuses")
	r.Fill = fill
	filled = 0
	if s, _, _ := trial(t, opened(t, r), shortly); filled != 0 || !strings.Contains(s.Failure, "no such thing") {
		t.Errorf("filled %d times, failed with %q", filled, s.Failure)
	}
}

// A server receives files.
func TestFiles(t *testing.T) {
	r := role(t, "reads")
	f, err := process.Memory("file")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("as it says"); err != nil {
		t.Fatal(err)
	}
	r.Files = []*os.File{f}
	if s, _, _ := trial(t, opened(t, r), shortly); s.Failure != "server ended with exit status 3: as it says" {
		t.Errorf("failed with %q", s.Failure)
	}
}

// A server has its socket options before its trial opens.
func TestOptions(t *testing.T) {
	r := role(t, "sleeps")
	r.Options = sock.Options{Congestion: "reno"}
	e := opened(t, r)
	e.Prepare(1)
	fds, err := e.(*endpoint).child.Listening()
	if err != nil || len(fds) != 1 {
		t.Fatalf("%d listening sockets, %v", len(fds), err)
	}
	s := sock.Socket{FD: fds[0]}
	defer s.Close()
	if facts, err := s.Facts(); facts.Congestion != "reno" || err != nil {
		t.Errorf("congestion control %q, %v", facts.Congestion, err)
	}
}
