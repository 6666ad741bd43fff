package workloadtest

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// spec returns the spec of an endpoint on loopback.
func spec(t *testing.T, load workload.Workload, side workload.Side, given map[string]string) workload.Spec {
	t.Helper()
	Loopback(t)
	params, err := load.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	at := func() netip.AddrPort { return netip.AddrPortFrom(loopback, freePorts(rigPorts)) }
	return workload.Spec{
		Workload: load.Describe().Name, Params: params, Side: side, Local: at(), Remote: at(), LocalPorts: rigPorts,
		RemotePorts: rigPorts,
	}
}

// portTaken checks that the error about a port in use names the port.
func portTaken(t *testing.T, load workload.Workload, given map[string]string) {
	if load.Describe().Alone {
		return // the kernel answers, without a port
	}
	s := spec(t, load, workload.Sink, given)
	first, err := load.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := load.Open(s)
	if err == nil {
		second.Close()
		t.Fatal("a second sink opened the same port")
	}
	if port := fmt.Sprint(s.Local.Port()); !strings.Contains(err.Error(), port) ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("error %q, want one that says that port %s is in use", err, port)
	}
}

// noDescriptors checks that an endpoint that cannot open a file reports that, and closes what it has opened.
func noDescriptors(t *testing.T, load workload.Workload, given map[string]string) {
	for _, side := range []workload.Side{workload.Sink, workload.Source} {
		s := spec(t, load, side, given)
		before := testnet.Descriptors(t)
		refused := 0
		for more := range 4 {
			var e traffic.Endpoint
			var err error
			testnet.FewDescriptors(t, more, func() { e, err = load.Open(s) })
			switch {
			case err == nil:
				e.Close()
			case strings.Contains(err.Error(), "too many open files"):
				refused++
			case side == workload.Source: // nobody listens for it, which it may notice first
			default:
				t.Errorf("%s with %d descriptors: %q, want that there are too many open files", side, more, err)
			}
		}
		if refused == 0 {
			t.Errorf("a %s opened without a single descriptor", side)
		}
		if after := testnet.Descriptors(t); after > before {
			t.Errorf("%s: %d descriptors are open that were not before", side, after-before)
		}
	}
}

// dyingPeer checks that a trial whose sink dies in the middle ends by its deadline, with a failure or doubt.
func dyingPeer(t *testing.T, load workload.Workload, given map[string]string) {
	if load.Describe().Alone {
		return
	}
	witness.Until(t, Borne(), func() (err error) {
		// A sink dies once, so each try has a rig of its own, which is closed before the next one is opened.
		if !t.Run("once", func(t *testing.T) { err = dies(t, load, given) }) {
			t.FailNow()
		}
		return err
	})
}

// dies has a sink die in the middle of a trial. The error says that neither side reports it: on a busy machine the sink
// may die after the trial is over.
func dies(t *testing.T, load workload.Workload, given map[string]string) error {
	t.Helper()
	r := NewRig(t, load, Options{Pairs: 1, Length: 150 * time.Millisecond, Given: given})
	sound(t, r)
	dead := make(chan struct{})
	time.AfterFunc(r.Length/2, func() {
		r.Sinks[0].Close()
		close(dead)
	})
	watch, start := witness.Begin(t), time.Now()
	timing, err := r.Block(context.Background())
	if err != nil || !timing.Done {
		t.Fatalf("the sink died: %v, %+v", err, timing)
	}
	took := time.Since(start)
	<-dead
	if seen := watch.Seen(t); took > r.Length+25*traffic.DrainLimit+seen.Excuse() {
		t.Errorf("the trial took %v (%v)", took, seen)
	}
	source, sink := sample(r.Sources[0]), sample(r.Sinks[0])
	if source.Failure == "" && source.Doubt == "" && sink.Failure == "" && sink.Doubt == "" {
		return fmt.Errorf("the sink died, and nobody says that something is wrong: %+v, %+v", source, sink)
	}
	return nil
}
