package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// A Case is a workload with parameters that a driver supports.
type Case struct {
	Load  workload.Workload
	Given map[string]string // parameters
	IPv6  bool
	Pairs int // 0 means one
	// Taken is the server's message if its port is taken, "" if it prints none. Only the first case's value counts.
	Taken string
	// Server is the program that the workload's own sink starts, if the driver has no server. "" means it starts no
	// program.
	Server string
	// Untold is how many packets a source sends that the driver does not report, as a share of those that it reports.
	Untold float64
}

// embedded returns whether the sink is not a program.
func (c Case) embedded(d driver.Description) bool { return d.SourceOnly && c.Server == "" }

// server returns the program at the sink.
func (c Case) server(d driver.Description) string { return cmp.Or(c.Server, d.Server, d.Program) }

// Conformance checks what every driver promises. The fault tests run with the first case only. If the program is not
// installed, the tests that need it are skipped.
func Conformance(t *testing.T, d driver.Driver, cases ...Case) {
	t.Run("description", func(t *testing.T) { description(t, d, cases) })
	_, err := driver.Find(d)
	testnet.Skip(t, err)
	t.Run("version", func(t *testing.T) {
		if v, err := d.Describe().Programs(workload.Source)[0].Version(t.Context()); err != nil || v == "" {
			t.Errorf("version %q, %v", v, err)
		}
	})
	for i, c := range cases {
		params := resolve(t, c)
		t.Run(c.Load.Describe().ID(params), func(t *testing.T) {
			trials := 1
			if i == 0 {
				trials = 2
			}
			sequence(t, d, c, trials)
		})
	}
	t.Run("disturbed", func(t *testing.T) { disturbed(t, d, cases[0]) })
	t.Run("too short", func(t *testing.T) { tooShort(t, d, cases[0]) })
	t.Run("nonsense", func(t *testing.T) { nonsense(t, d, cases[0]) })
	if d.Describe().IPv4Only {
		t.Run("family", func(t *testing.T) { family(t, d, cases[0]) })
	}
	if !cases[0].Load.Describe().Alone {
		t.Run("nobody there", func(t *testing.T) { nobodyThere(t, d, cases[0]) })
	}
	if !cases[0].Load.Describe().Alone && !cases[0].embedded(d.Describe()) {
		t.Run("closed", func(t *testing.T) { closed(t, d, cases[0]) })
		t.Run("stranger", func(t *testing.T) { stranger(t, d, cases[0]) })
	}
}

func resolve(t testing.TB, c Case) part.Params {
	t.Helper()
	params, err := c.Load.Describe().Resolve(c.Given)
	if err != nil {
		t.Fatal(err)
	}
	return params
}

func description(t *testing.T, d driver.Driver, cases []Case) {
	about := d.Describe()
	if about.Name == "" || about.Summary == "" || strings.HasSuffix(about.Summary, ".") || about.Program == "" ||
		about.Package == "" || about.Differs == "" || strings.HasSuffix(about.Differs, ".") {
		t.Errorf("incomplete: %+v", about)
	}
	for _, c := range cases {
		w, params := c.Load.Describe(), resolve(t, c)
		if err := d.Serves(w, params); err != nil {
			t.Errorf("%s: %v", w.ID(params), err)
		}
		if n := d.Trial(w, params); n < time.Second || n > 10*time.Second {
			t.Errorf("%s: a trial of %v", w.ID(params), n)
		}
	}
	err := d.Serves(workload.Description{Name: "no-such"}, nil)
	if err == nil || !strings.Contains(err.Error(), `"no-such"`) ||
		!strings.Contains(err.Error(), cases[0].Load.Describe().Name) {
		t.Errorf("unknown workload: %v, want an error that quotes it and names what the driver can drive", err)
	}
}

// driven is a workload whose endpoints a driver opens. It records where the last sink is.
type driven struct {
	workload.Workload
	driver driver.Driver
	sink   *netip.AddrPort
}

func (w driven) Open(s workload.Spec) (traffic.Endpoint, error) {
	s.Driver = w.driver.Describe().Name
	s.Congestion = "reno" // every namespace supports it
	if s.Side == workload.Sink {
		*w.sink = s.Local
	}
	return driver.Opener(w.driver, w.Workload, s.Side)(s)
}

// A rig is a pair of containers, joined by a veth, and the endpoints in them.
type rig struct {
	*workloadtest.Rig
	sink netip.AddrPort
	do   func(workload.Side, func() error) error
}

func newRig(t *testing.T, d driver.Driver, c Case, length time.Duration,
	wrap func(workload.Side, int, traffic.Endpoint) traffic.Endpoint,
) *rig {
	t.Helper()
	m := testnet.New(t)
	var kernel *host.Kernel
	if err := m.Do(func() (err error) {
		kernel, err = host.NewKernel(host.KernelConfig{Dir: m.Dir})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var stack host.Stack
	t.Cleanup(func() {
		if err := stack.Undo(context.Background(), kernel); err != nil {
			t.Error(err)
		}
		if err := kernel.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := stack.Apply(t.Context(), kernel, host.Plan{Steps: []host.Step{
		host.Namespace{Name: "source"},
		host.Namespace{Name: "sink"},
		host.Sysctl{NS: "source", Key: "net.ipv6.conf.default.accept_dad", Value: "0"},
		host.Sysctl{NS: "sink", Key: "net.ipv6.conf.default.accept_dad", Value: "0"},
		host.Veth{
			NS: "source", Name: "eth0", Addresses: []string{"10.0.0.1/24", "fd00:7::1/64"},
			PeerNS: "sink", PeerName: "eth0", PeerAddresses: []string{"10.0.0.2/24", "fd00:7::2/64"},
		},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := stack.Verify(t.Context(), kernel); err != nil {
		t.Fatal(err)
	}
	addresses := map[workload.Side]string{workload.Source: "10.0.0.1", workload.Sink: "10.0.0.2"}
	if c.IPv6 {
		addresses = map[workload.Side]string{workload.Source: "fd00:7::1", workload.Sink: "fd00:7::2"}
	}
	r := &rig{do: func(side workload.Side, f func() error) error { return kernel.Do(string(side), f) }}
	where := map[workload.Side]workloadtest.Where{}
	for side, address := range addresses {
		where[side] = workloadtest.Where{
			Address: netip.MustParseAddr(address),
			Do:      func(f func() error) error { return r.do(side, f) },
		}
	}
	r.Rig = workloadtest.NewRig(t, driven{c.Load, d, &r.sink}, workloadtest.Options{
		Pairs: max(1, c.Pairs), Length: length, Given: c.Given, Where: where, Wrap: wrap,
	})
	return r
}

// borne returns how much other work is tolerated during a trial of programs: if other work takes the CPUs, they do not
// end in time. The kernel does not report how long ended programs waited.
func borne() witness.Limit { return witness.Limit{Lost: 50 * time.Millisecond, Share: 0.1} }

// sound makes a trial that has figures, and checks them.
func (r *rig) sound(t *testing.T, c Case) {
	t.Helper()
	var trial workload.Trial
	var result workload.Result
	var source, sink [2]counters
	witness.Until(t, borne(), func() error {
		source[0], sink[0] = r.carried(t, workload.Source), r.carried(t, workload.Sink)
		trial, result = r.Trial(t)
		source[1], sink[1] = r.carried(t, workload.Source), r.carried(t, workload.Sink)
		if reason := trial.Failure(); reason != "" {
			r.nothingLeft(t)
			return fmt.Errorf("the trial failed: %s", reason)
		}
		return nil
	})
	r.agrees(t, trial, source, sink, c.Untold)
	d := r.Load.Describe()
	if v := result.Metrics[d.Primary(trial.Params)]; !(v > 0) {
		t.Errorf("%s is %v", d.Primary(trial.Params), v)
	}
	for name := range result.Metrics {
		if _, known := d.Vocabulary().Lookup(name); !known {
			t.Errorf("metric %q is not declared", name)
		}
	}
	if trial.Window < 300*time.Millisecond || trial.Window > r.Length || trial.Length < trial.Window ||
		trial.Length > r.Length {
		t.Errorf("window %v of %v in a trial of %v", trial.Window, trial.Length, r.Length)
	}
	var sent, received int64
	for side, samples := range map[string][]traffic.Sample{"source": trial.Sources, "sink": trial.Sinks} {
		for i, s := range samples {
			if side == "sink" && c.Load.Describe().Alone {
				continue
			}
			// It has one CPU. If its thread woke up too late, its start and end are counted, too.
			if s.CPU <= 0 || float64(s.CPU) > 1.2*float64(s.Span) {
				t.Errorf("%s %d: run time %v of %v", side, i, time.Duration(s.CPU), time.Duration(s.Span))
			}
			sent += s.Sent
			received += s.Received
		}
	}
	if d.Name != "udp-rr" && received > sent { // its sink counts warm-up, too
		t.Errorf("%d received of %d sent", received, sent)
	}
	t.Logf("%s: window %v, %v; %v", d.Primary(trial.Params), trial.Window, result.Metrics, result.Warnings)
	r.nothingLeft(t)
}

// sequence checks that trials have plausible figures, and that nothing is left between them.
func sequence(t *testing.T, d driver.Driver, c Case, trials int) {
	r := newRig(t, d, c, d.Trial(c.Load.Describe(), resolve(t, c)), nil)
	for range trials {
		r.sound(t, c)
	}
	for _, e := range slices.Concat(r.Sources, r.Sinks) {
		if f, err := e.Facts(); err != nil || f.SendBuffer <= 0 || f.RecvBuffer <= 0 {
			t.Errorf("facts %+v, %v", f, err)
		}
	}
}

// tooShort checks that a trial without enough time for the program reports this and starts nothing that it has to wait
// for.
func tooShort(t *testing.T, d driver.Driver, c Case) {
	c.Pairs = 1
	r := newRig(t, d, c, 200*time.Millisecond, nil)
	began := time.Now()
	trial, _ := r.Trial(t)
	if want := "a trial of 200ms is too short for driver " + d.Describe().Name; !strings.Contains(trial.Failure(), want) {
		t.Errorf("failed with %q, want %q", trial.Failure(), want)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	r.nothingLeft(t)
}

// family checks that a driver without IPv6 refuses an IPv6 address when it opens.
func family(t *testing.T, d driver.Driver, c Case) {
	_, err := d.Open(workload.Spec{
		Workload: c.Load.Describe().Name, Params: resolve(t, c), Side: workload.Sink,
		Local: netip.MustParseAddrPort("[::1]:5000"), Remote: netip.MustParseAddrPort("[::1]:5001"),
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("opening at an address of IPv6: %v, want errors.ErrUnsupported", err)
	}
}

// closed checks that an endpoint closed before its trial leaves no process.
func closed(t *testing.T, d driver.Driver, c Case) {
	c.Pairs = 1
	r := newRig(t, d, c, time.Second, nil)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.Sinks[0].Prepare(1)
	if s := r.Sinks[0].Sample(); s.Failure != "" {
		t.Fatal(s.Failure)
	}
	if n := len(children(t, c.server(d.Describe()))); n != 1 {
		t.Errorf("%d servers when a trial is prepared, want one", n)
	}
	r.Sinks[0].Prepare(2) // the trial did not open
	r.Sinks[0].Close()
	r.nothingLeft(t)
}

// nothingLeft checks that the programs of a trial are gone.
func (r *rig) nothingLeft(t *testing.T) {
	t.Helper()
	if left := children(t, ""); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}
