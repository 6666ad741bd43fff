package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// shell is a place to type commands: a machine of its own with a link to another one or, without a namespace, the
// network of the test.
type shell struct {
	*testnet.Machine
	t    *testing.T
	link int
}

// shells returns two machines joined by a link, "eth" on both. The addresses are 10.9.0.1, fd09::1 and fe80::1 on one
// side, and the same with 2 on the other.
func shells(t *testing.T) (near, far shell) {
	t.Helper()
	near, far = shell{Machine: testnet.New(t), t: t}, shell{Machine: testnet.New(t), t: t}
	near.with(func(h *link.Handle) (err error) {
		_, err = h.AddVeth(link.Veth{Name: "eth", PeerName: "eth", PeerNS: far.NS})
		return err
	})
	for number, s := range []*shell{&near, &far} {
		s.with(func(h *link.Handle) error {
			eth, err := h.ByName("eth")
			if err != nil {
				return err
			}
			s.link = eth.Index
			for _, a := range []string{"10.9.0.%d/24", "fd09::%d/64", "fe80::%d/64"} {
				if err := h.AddAddress(eth.Index, netip.MustParsePrefix(fmt.Sprintf(a, number+1))); err != nil {
					return err
				}
			}
			return h.SetUp(eth.Index, true)
		})
	}
	return near, far
}

func (s shell) with(f func(*link.Handle) error) {
	s.t.Helper()
	err := s.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// busy waits until the machine has received more packets than before a trial.
func (s shell) busy() {
	s.t.Helper()
	const many = 1000
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var received uint64
		s.with(func(h *link.Handle) error {
			all, err := h.Traffic()
			for _, l := range all {
				if l.Name == "eth" {
					received = l.Received
				}
			}
			return err
		})
		if received > many {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("it has received %d packets", received)
		}
	}
}

// drop makes the machine silently drop received packets of a protocol that are longer than so many bytes.
func (s shell) drop(protocol byte, above uint32) {
	s.t.Helper()
	err := s.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "black hole"})
		chain := c.AddChain(&nftables.Chain{
			Name: "in", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
			Priority: nftables.ChainPriorityFilter,
		})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
			&expr.Meta{Key: expr.MetaKeyLEN, Register: 1},
			// nftables compares numbers byte by byte
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpGt, Register: 1, Data: binaryutil.BigEndian.PutUint32(above)},
			&expr.Verdict{Kind: expr.VerdictDrop},
		}})
		return c.Flush()
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// typed is a command that was started.
type typed struct {
	cmd            *exec.Cmd
	stdout, stderr text
}

// start starts a command line of sh(1), in which nettoll is the program under test. It is killed at the end of the
// test.
func (s shell) start(command string) *typed {
	s.t.Helper()
	c := &typed{cmd: exec.Command("sh", "-c", strings.ReplaceAll(command, "nettoll ", `exec "$`+programEnv+`" `))}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	do := func(f func() error) error { return f() }
	if s.Machine != nil {
		do = s.Do // a child is in the network namespace of the thread that starts it
	}
	if err := do(c.cmd.Start); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	return c
}

// sink starts a sink and waits until it listens.
func (s shell) sink(command string) *typed {
	s.t.Helper()
	c := s.start(command)
	for deadline := time.Now().Add(patience); !strings.Contains(c.stderr.String(),
		"nettoll sink waits at"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %s", command, &c.stderr)
		}
	}
	return c
}

// run runs a command to its end.
func (s shell) run(command string) output {
	s.t.Helper()
	c := s.start(command)
	_ = c.cmd.Wait() // the process state has the exit status
	return output{c.stdout.String(), c.stderr.String(), c.cmd.ProcessState.ExitCode()}
}

// usable reports whether a source with this exit status has a usable interval. On a busy machine others may fail.
func usable(status int) bool {
	const partly = 3
	return status == 0 || status == partly
}

// figures is the result of a source with --json.
func (s shell) figures(command string) (map[string]float64, error) {
	s.t.Helper()
	o := s.run(command)
	var r struct{ Metrics map[string]float64 }
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		return nil, fmt.Errorf("%s: %+v, %w", command, o, err)
	}
	if o.status != 0 && len(r.Metrics) > 0 {
		return nil, fmt.Errorf("%s: %+v", command, o)
	}
	return r.Metrics, nil
}

// Two machines run streams, datagrams and round trips, over both families and over link-local addresses.
func TestByHandBetweenMachines(t *testing.T) {
	t.Parallel()
	near, far := shells(t)
	far.sink("nettoll sink")
	for _, at := range []string{"10.9.0.2", "fd09::2", "[fd09::2]:8655", "fe80::2%eth"} {
		t.Run(at, func(t *testing.T) {
			near.t = t
			for load, metric := range map[string]string{
				"udp-rr": "latency_mean", "'udp-rate(rate=1k/s)'": "packet_rate", "tcp-stream": "goodput", "ping": "latency_mean",
			} {
				// On a busy machine one of five intervals is enough for a figure. If the two processes stand still for
				// longer than a drain, their windows are apart, and one of them ends a stream under the other.
				witness.Until(t, workloadtest.Borne(), func() error {
					m, err := near.figures(fmt.Sprintf("nettoll source %s '%s' --time 1s --interval 200ms --json", load, at))
					if err == nil && m[metric] <= 0 {
						err = fmt.Errorf("%s: no %s: %v", load, metric, m)
					}
					return err
				})
			}
		})
	}
}

// A source that comes while another one is served waits, reports that, and starts by itself. A source that is
// interrupted gives up its place.
func TestByHandWaits(t *testing.T) {
	t.Parallel()
	near, far := shells(t)
	far.sink("nettoll sink")
	first := near.start("nettoll source udp-rr 10.9.0.2 --time 10m --interval 200ms")
	first.until(t, "–0.2 s")
	second := near.start("nettoll source udp-rr 10.9.0.2 --time 10m --interval 200ms")
	second.until(t, "nettoll: waiting for 1 other source\n")
	third := near.start("nettoll source udp-rr 10.9.0.2 --time 1s --interval 200ms")
	third.until(t, "nettoll: waiting for 2 other sources\n")
	for name, c := range map[string]*typed{"second": second, "first": first} {
		if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if _ = c.cmd.Wait(); c.cmd.ProcessState.ExitCode() != 130 { // the process state has the exit status
			t.Errorf("the %s source: %v, %s", name, c.cmd.ProcessState, &c.stderr)
		}
	}
	if _ = third.cmd.Wait(); !usable(third.cmd.ProcessState.ExitCode()) ||
		!strings.Contains(third.stdout.String(), "latency mean") {
		t.Errorf("the third source: %v, %s %s", third.cmd.ProcessState, &third.stdout, &third.stderr)
	}
}

// until waits until a command has printed something.
func (c *typed) until(t *testing.T, what string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(c.stdout.String()+c.stderr.String(),
		what); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it has not said %q, but: %s %s", what, &c.stdout, &c.stderr)
		}
	}
}

// The error names the obstacle in the way of packets.
func TestByHandBlackHoles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, load string
		protocol   byte
		above      uint32
		want       string
	}{
		{"udp", "udp-rr", unix.IPPROTO_UDP, 0, "nothing arrives that is sent from 10.9.0.1:"},
		{
			"udp of full size", "'udp-rate(payload=1400)'", unix.IPPROTO_UDP, 1000,
			"with a payload of 1400 bytes, but small datagrams do: a link on the path has a smaller MTU",
		},
		{
			"fragments", "'udp-rr(payload=8000)'", unix.IPPROTO_UDP, 1000,
			"with a payload of 8000 bytes, which is more than fits the MTU: fragments do not pass",
		},
		{
			"tcp of full size", "tcp-stream", unix.IPPROTO_TCP, 1000,
			"answers small packets but no full-size ones: a link on the path has a smaller MTU",
		},
		{"icmp", "ping", unix.IPPROTO_ICMP, 0, "10.9.0.2 does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			near, far := shells(t)
			sink := far.sink("nettoll sink")
			far.drop(c.protocol, c.above)
			start := time.Now()
			o := near.run("nettoll source " + c.load + " 10.9.0.2 --time 5s --interval 200ms")
			if o.status != 1 || !strings.Contains(o.stderr, c.want) || strings.Count(o.stderr, "\n") != 1 {
				t.Errorf("%+v, want status 1 and an error that says %q; the sink said:\n%s", o, c.want, &sink.stderr)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("named after %v", took)
			}
		})
	}
}

// If a link goes down in the middle of a trial, or no descriptors are left, the error says so. The sink then serves the
// next source.
func TestByHandFaults(t *testing.T) {
	t.Parallel()
	t.Run("link", func(t *testing.T) {
		t.Parallel()
		near, far := shells(t)
		sink := far.sink("nettoll sink")
		c := near.start("nettoll source udp-rr 10.9.0.2 --time 30s --interval 200ms")
		for deadline := time.Now().Add(patience); !strings.Contains(c.stdout.String(),
			"–0.2 s"); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no interval: %s %s", &c.stdout, &c.stderr)
			}
		}
		start := time.Now()
		far.with(func(h *link.Handle) error { return h.SetUp(far.link, false) })
		_ = c.cmd.Wait() // the process state has the exit status
		if status := c.cmd.ProcessState.ExitCode(); status != 1 ||
			!strings.Contains(c.stderr.String(), "the sink at 10.9.0.2:8655 has sent nothing for") {
			t.Errorf("status %d: %s", status, &c.stderr)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("named after %v", took)
		}
		if !strings.Contains(c.stdout.String(), "latency mean") {
			t.Errorf("what was measured is not there:\n%s", &c.stdout)
		}
		sink.alone(t)
	})
	t.Run("vanished source", func(t *testing.T) { // its link goes down in the middle of a trial of a minute whose threads spin
		t.Parallel()
		near, far := shells(t)
		sink := far.sink("nettoll sink")
		c := near.start("nettoll source 'udp-rr(mode=spin)' 10.9.0.2 --time 1m --interval 1m")
		c.until(t, "udp-rr(")
		near.busy()
		start := time.Now()
		near.with(func(h *link.Handle) error { return h.SetUp(near.link, false) })
		sink.alone(t)
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("its threads have ended after %v; the sink said:\n%s", took, &sink.stderr)
		}
	})
	t.Run("interrupted sink", func(t *testing.T) {
		t.Parallel()
		near, far := shells(t)
		sink := far.sink("nettoll sink")
		c := near.start("nettoll source udp-rr 10.9.0.2 --time 30s --interval 30s")
		for deadline := time.Now().Add(patience); !strings.Contains(c.stdout.String(),
			"udp-rr"); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no source: %s %s", &c.stdout, &c.stderr)
			}
		}
		near.busy()
		start := time.Now()
		if err := sink.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_, _ = c.cmd.Wait(), sink.cmd.Wait() // the process states have the exit statuses
		if here, there := c.cmd.ProcessState.ExitCode(), sink.cmd.ProcessState.ExitCode(); here != 1 || there != 130 ||
			!strings.Contains(c.stderr.String(), "has ended the connection in the middle of a trial") {
			t.Errorf("the source ended with %d: %s; the sink with %d: %s", here, &c.stderr, there, &sink.stderr)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
	t.Run("descriptors of the sink", func(t *testing.T) {
		t.Parallel()
		near, far := shells(t)
		sink := far.sink("ulimit -n 20; nettoll sink")
		o := near.run("nettoll source udp-rr 10.9.0.2 --pairs 32 --time 200ms --interval 200ms")
		if o.status != 1 || !strings.Contains(o.stderr,
			"too many open files (hint: raise the limit of open files, ulimit -n") {
			t.Errorf("%+v", o)
		}
		if o := near.run("nettoll source udp-rr 10.9.0.2 --time 1s --interval 200ms"); !usable(o.status) {
			t.Errorf("the next source: %+v; the sink said:\n%s", o, &sink.stderr)
		}
	})
	t.Run("descriptors of the source", func(t *testing.T) {
		t.Parallel()
		near, far := shells(t)
		far.sink("nettoll sink")
		o := near.run("ulimit -n 20; nettoll source tcp-stream 10.9.0.2 --pairs 32 --time 200ms --interval 200ms")
		if o.status != 1 || !strings.Contains(o.stderr, "too many open files (hint:") {
			t.Errorf("%+v", o)
		}
	})
}

// alone waits until a sink serves no source: then it has no child.
func (c *typed) alone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		children := ""
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.cmd.Process.Pid))
		for _, file := range tasks {
			b, _ := os.ReadFile(file)
			children += string(b)
		}
		if len(tasks) > 0 && children == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sink has the children %s; it said:\n%s", children, &c.stderr)
		}
	}
}

// Measuring by hand needs no privilege.
func TestByHandWithoutPrivilege(t *testing.T) {
	testnet.Root(t)
	workloadtest.Loopback(t)
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close() // the listener's connection goes to the sink
	sink := exec.Command(os.Getenv(programEnv), "sink", "--listen", at)
	sink.SysProcAttr = &syscall.SysProcAttr{Credential: nobody}
	if err := sink.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sink.Process.Kill()
		_ = sink.Wait()
	}()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", at); err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no sink")
		}
	}
	for _, load := range []string{"tcp-stream", "udp-rr", "udp-rate(rate=1k/s)"} {
		witness.Until(t, workloadtest.Borne(), func() error {
			o := nettollAs(t, nobody, "source", load, at, "--time", "1s", "--interval", "200ms")
			if !usable(o.status) {
				return fmt.Errorf("%s: %+v", load, o)
			}
			return nil
		})
	}
}
