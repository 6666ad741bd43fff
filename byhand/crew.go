package byhand

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// crew holds the endpoints of one side, each with a locked thread. In nettoll run, turns pass in memory that all
// processes of a machine share; here they come over a connection.
type crew struct {
	specs     []workload.Spec
	endpoints []traffic.Endpoint
	orders    []chan func(traffic.Endpoint)
	done      chan struct{} // one for each order of each thread
	restore   func()
}

// enlist opens the endpoints of one side and gives each a thread. The threads run on the given CPUs in turn, or
// anywhere.
func enlist(load workload.Workload, specs []workload.Spec, cpus []int) (*crew, error) {
	c := &crew{specs: specs, done: make(chan struct{}, len(specs))}
	for _, s := range specs {
		var e traffic.Endpoint
		// A source that looks for free ports has each for a moment.
		err := sock.Rebind(func() (err error) {
			e, err = load.Open(s)
			return err
		})
		if err != nil {
			c.closeEndpoints()
			return nil, fmt.Errorf("open %s of pair %d for %s: %w%s", s.Side, s.Pair, s.Workload, err, hint(err))
		}
		c.endpoints = append(c.endpoints, e)
	}
	// A thread in a measuring loop never gives its P back, and a garbage collection would stop all others until it
	// does: see the worker.
	collect, threads := debug.SetGCPercent(-1), runtime.GOMAXPROCS(len(specs)+2)
	c.restore = func() {
		debug.SetGCPercent(collect)
		runtime.GOMAXPROCS(threads)
	}
	ready := make(chan error, len(specs))
	for i, e := range c.endpoints {
		orders := make(chan func(traffic.Endpoint))
		c.orders = append(c.orders, orders)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread, and so its CPU binding, ends with the goroutine
			if len(cpus) > 0 {
				if err := thread.Pin(cpus[i%len(cpus)]); err != nil {
					ready <- err
					return
				}
			}
			ready <- nil
			for order := range orders {
				order(e)
				c.done <- struct{}{}
			}
		}()
	}
	var failed error
	for range c.endpoints {
		failed = errors.Join(failed, <-ready)
	}
	if failed != nil {
		c.end()
		return nil, failed
	}
	return c, nil
}

// hint returns advice about an error of opening sockets.
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return " (hint: raise the limit of open files, ulimit -n, or ask for fewer pairs or flows)"
	case errors.Is(err, syscall.ENFILE):
		return " (hint: raise fs.file-max)"
	case errors.Is(err, syscall.EADDRINUSE):
		return " (hint: another program has the port)"
	}
	return ""
}

// ready waits for the connections between both ends, within one common deadline.
func (c *crew) ready() error {
	until := time.Now().Add(traffic.ConnectLimit)
	for i, e := range c.endpoints {
		if r, ok := e.(workload.Readier); ok {
			if err := r.Ready(time.Until(until)); err != nil {
				return fmt.Errorf("%s of pair %d for %s: %w", c.specs[i].Side, c.specs[i].Pair, c.specs[i].Workload, err)
			}
		}
	}
	return nil
}

// all lets every thread do something with its endpoint at the same time. The caller waits.
func (c *crew) all(do func(traffic.Endpoint)) {
	for _, o := range c.orders {
		o <- do
	}
}

// wait waits until all threads are done.
func (c *crew) wait() {
	for range c.orders {
		<-c.done
	}
}

// collect returns the samples of the trial, and adds its durations to the histograms.
func (c *crew) collect(sums *[traffic.Quantities]*hdrhistogram.Histogram) ([]traffic.Sample, error) {
	samples := make([]traffic.Sample, len(c.endpoints))
	for i, e := range c.endpoints {
		if k, ok := e.(traffic.Collector); ok {
			k.Collect()
		}
		samples[i] = *e.Sample()
		for q, r := range e.Recorders() {
			if r == nil || r.Count == 0 {
				continue
			}
			if sums[q] == nil {
				sums[q] = traffic.NewHistogram()
			}
			if err := r.AddTo(sums[q]); err != nil {
				return nil, err
			}
		}
	}
	traffic.Sweep()
	return samples, nil
}

// end ends the threads and closes the endpoints. No trial may be under way.
func (c *crew) end() {
	for _, o := range c.orders {
		close(o)
	}
	c.closeEndpoints()
	c.restore()
}

func (c *crew) closeEndpoints() {
	for _, e := range c.endpoints {
		e.Close()
	}
}

// facts returns what the kernel granted the endpoints.
func (c *crew) facts() ([]sock.Facts, error) {
	all := make([]sock.Facts, len(c.endpoints))
	for i, e := range c.endpoints {
		var err error
		if all[i], err = e.Facts(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// lastPort is the highest port that freePorts returns.
const lastPort = 1<<16 - 1

// freePorts finds consecutive ports of an address, from the given one on, that are free for both UDP and TCP. Another
// program can take one before it is opened; opening it then fails with an error.
func freePorts(at netip.Addr, from, count int) (int, error) {
	found := 0
	for port := from; port <= lastPort; port++ {
		switch free, err := free(netip.AddrPortFrom(at, uint16(port))); {
		case err != nil:
			return 0, err
		case !free:
			found = 0
		default:
			if found++; found == count {
				return port - count + 1, nil
			}
		}
	}
	return 0, fmt.Errorf("%s has no %d free ports in a row from %d on", at, count, from)
}

func free(at netip.AddrPort) (bool, error) {
	udp, err := sock.UDP(at, netip.AddrPort{})
	if err == nil {
		udp.Close()
		var tcp sock.Socket
		if tcp, err = sock.Stream(at, ""); err == nil {
			tcp.Close()
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) { // EACCES: a privileged port
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w%s", err, hint(err))
	}
	return true, nil
}
