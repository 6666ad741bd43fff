package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// needNginx skips a test if nginx is not installed.
func needNginx(t *testing.T) {
	t.Helper()
	_, err := nginxNeeded().Locate()
	testnet.Skip(t, err)
}

// with returns parameters with nginx as the server.
func with(more map[string]string) map[string]string {
	given := map[string]string{"server": nginx}
	maps.Copy(given, more)
	return given
}

// The real nginx serves pages in several trials.
func TestNginx(t *testing.T) {
	needNginx(t)
	for _, given := range []map[string]string{
		{},
		{"connection": "new"},
		{"payload": "0", "clients": "1"},
		{"payload": "1MiB", "clients": "2"},
		{"rate": "2k/s", "arrivals": "poisson"},
		{"clients": "1000"},
	} {
		params, err := Workload{}.Describe().Resolve(with(given))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(Workload{}.Describe().ID(params), func(t *testing.T) {
			r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{
				Pairs: 1, Length: 200 * time.Millisecond, Given: with(given),
			})
			for range 2 {
				trial, result := sound(t, r)
				source, sink := trial.Sources[0], trial.Sinks[0]
				if source.Errors > 0 || source.Received > source.Sent {
					t.Errorf("%d sent, %d received, %d errors", source.Sent, source.Received, source.Errors)
				}
				// CPU time outside the kernel is counted in ticks, which are long
				if sink.CPU <= 0 || sink.Span < int64(r.Length) {
					t.Errorf("run time %d ns of %d", sink.CPU, sink.Span)
				}
				if want := float64(source.Received) * float64(8*params.Size("payload")) / trial.Window.Seconds(); result.Metrics["goodput"] != want {
					t.Errorf("goodput %g, want %g", result.Metrics["goodput"], want)
				}
				if connect := trial.Histograms[traffic.Connect]; (connect != nil) != (given["connection"] == "new") {
					t.Errorf("connections timed: %v", connect != nil)
				}
				t.Logf("%.0f/s, %v", result.Metrics["transaction_rate"], result.Warnings)
			}
			nothingLeft(t)
		})
	}
}

// openSink opens the endpoint of a sink at a free port and, if given, at an address.
func openSink(t *testing.T, given map[string]string, at netip.Addr, congestion string) (traffic.Endpoint,
	netip.AddrPort,
) {
	t.Helper()
	workloadtest.Loopback(t)
	params, err := Workload{}.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	s := workload.Spec{
		Workload: "http", Params: params, Side: workload.Sink,
		Local: netip.AddrPortFrom(at, workloadtest.FreePort()), LocalPorts: 1, Congestion: congestion,
	}
	e, err := Workload{}.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, s.Local
}

// nginx serves the right page, its connections have the requested options, and nothing is left after it is closed.
func TestNginxPage(t *testing.T) {
	needNginx(t)
	runtime.LockOSThread() // its child processes end with it
	for _, at := range []string{"127.0.0.1", "::1"} {
		e, address := openSink(t, with(map[string]string{"payload": "100KiB"}), netip.MustParseAddr(at), "reno")
		e.Prepare(1)
		if s := e.Sample(); s.Failure != "" {
			t.Fatal(s.Failure)
		}
		client := http.Client{Transport: &http.Transport{}}
		if got := fetch(t, &client, "GET", address, pagePath); !bytes.Equal(got, traffic.Payload(100<<10)) {
			t.Errorf("a page of %d bytes, which is not the one", len(got))
		}
		out, err := exec.CommandContext(t.Context(), testnet.Program(t, "ss", "iproute2"), "-Htin", "sport", "=",
			fmt.Sprint(":", address.Port())).CombinedOutput()
		if err != nil || !strings.Contains(string(out), " reno ") {
			t.Errorf("the connection has %s (%v), want congestion control reno", out, err)
		}
		client.CloseIdleConnections()
		e.Close()
		nothingLeft(t)
		if entries, err := os.ReadDir("/var/lib/nginx"); err == nil {
			for _, entry := range entries {
				if left, err := os.ReadDir(filepath.Join("/var/lib/nginx", entry.Name())); err == nil && len(left) > 0 {
					t.Errorf("files are left in /var/lib/nginx/%s", entry.Name())
				}
			}
		}
	}
}

// fetch requests a page, which must exist.
func fetch(t *testing.T, c *http.Client, method string, at netip.AddrPort, path string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != ok {
		t.Errorf("%s %s: status %d, %d bytes, %v", method, path, r.StatusCode, len(body), err)
	}
	return body
}

// Faults of nginx are named, take no longer than the trial, and do not affect the next trial.
func TestNginxFaults(t *testing.T) {
	needNginx(t)
	const length = 200 * time.Millisecond
	var sink netip.AddrPort
	r := workloadtest.NewRig(t, noting{sink: &sink}, workloadtest.Options{Pairs: 1, Length: length, Given: with(nil)})
	sound(t, r)
	fails := func(what string, limit time.Duration, want ...string) error {
		t.Helper()
		began := time.Now()
		trial, _ := r.Trial(t)
		took := time.Since(began)
		t.Logf("%s: %s", what, trial.Failure())
		nothingLeft(t)
		for _, w := range want {
			if !strings.Contains(trial.Failure(), w) {
				return fmt.Errorf("%s: the trial failed with %q, want %q", what, trial.Failure(), w)
			}
		}
		if took > limit {
			return fmt.Errorf("%s: the trial took %v", what, took)
		}
		return nil
	}

	// signal signals nginx in the middle of a trial. On a busy machine it may do so after the trial is over.
	signal := func(s syscall.Signal, done chan<- struct{}) {
		defer close(done)
		deadline := time.Now().Add(time.Second)
		for time.Now().Before(deadline) {
			if pids := workloadtest.Started(t, nginx); len(pids) == 1 {
				time.Sleep(length / 2)
				_ = syscall.Kill(pids[0], s)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	witness.Until(t, borne(), func() error {
		signalled := make(chan struct{})
		go signal(syscall.SIGKILL, signalled)
		defer func() { <-signalled }()
		return fails("killed", 2*time.Second, "connection", "nginx server ended with signal: killed")
	})
	sound(t, r)

	witness.Until(t, borne(), func() error {
		signalled := make(chan struct{})
		go signal(syscall.SIGSTOP, signalled)
		defer func() { <-signalled }()
		began := time.Now()
		if trial, _ := r.Trial(t); trial.Failure() == "" && len(trial.Doubts()) == 0 {
			return fmt.Errorf("nginx stood still, and nobody says that something is wrong: %+v", trial)
		}
		if took := time.Since(began); took > 2*time.Second {
			return fmt.Errorf("stopped: the trial took %v", took)
		}
		return nil
	})
	sound(t, r)

	taken, err := net.Listen("tcp", sink.String()) //nolint:noctx // it takes no time
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	witness.Until(t, borne(), func() error {
		return fails("port taken", 3*time.Second, "nginx server could not listen at "+sink.String()+
			", which another process uses", "Address already in use")
	})
	_ = taken.Close()
	sound(t, r)
}

// noting is http, and records the address of the last sink.
type noting struct {
	Workload
	sink *netip.AddrPort
}

func (n noting) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Side == workload.Sink {
		*n.sink = s.Local
	}
	return n.Workload.Open(s)
}

// Without nginx, the error says what is missing, and what would help.
func TestNginxMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	params, err := Workload{}.Describe().Resolve(with(nil))
	if err != nil {
		t.Fatal(err)
	}
	before := testnet.Descriptors(t)
	_, err = Workload{}.Open(workload.Spec{
		Workload: "http", Params: params, Side: workload.Sink, Local: netip.MustParseAddrPort("127.0.0.1:1"),
	})
	u, unsupported := errors.AsType[*linux.UnsupportedError](err)
	if !unsupported || u.Missing != `program "nginx"` || !strings.Contains(u.Hint, "nginx-light") {
		t.Errorf("%v, want a linux.UnsupportedError that names nginx and its package", err)
	}
	if after := testnet.Descriptors(t); after > before {
		t.Errorf("%d descriptors are open that were not before", after-before)
	}
	if _, err := nginxNeeded().Version(context.Background()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("its version: %v", err)
	}
}

// nothingLeft checks that the processes of a trial are gone.
func nothingLeft(t testing.TB) {
	t.Helper()
	if left := workloadtest.Started(t, nginx); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}
