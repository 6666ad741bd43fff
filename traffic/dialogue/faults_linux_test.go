package dialogue_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// fewPorts returns a machine whose kernel can choose from only ten ports.
func fewPorts(t *testing.T) *testnet.Machine {
	t.Helper()
	m := testnet.New(t)
	if err := m.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		if err := h.SetUp(lo.Index, true); err != nil {
			return err
		}
		return sysctl.Write("net.ipv4.ip_local_port_range", "40000 40009")
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// both runs one trial of a server and a client, and returns their samples.
func both(t *testing.T, server *dialogue.Server, c *dialogue.Client, length time.Duration) (source,
	sink traffic.Sample,
) {
	t.Helper()
	threads := witness.Threads(t, 2)
	ofServer, ofClient := threads[0], threads[1]
	server.Prepare(1)
	c.Prepare(1)
	w := window(length)
	served := ofServer(func() { traffic.Drive(server, 1, w) })
	<-ofClient(func() { traffic.Drive(c, 1, w) })
	<-served
	c.Collect()
	server.Collect()
	return *c.Sample(), *server.Sample()
}

// With more connections than ports, the error is reported before the trial or during it, and the trial ends soon. As
// many connections as there are ports work repeatedly, because the server closes them.
func TestPortsExhausted(t *testing.T) {
	m := fewPorts(t)
	for name, tt := range map[string]struct {
		spec dialogue.ClientSpec
		want string
	}{
		"lasting":      {dialogue.ClientSpec{Connections: 11}, "no free local port"},
		"anew":         {dialogue.ClientSpec{Connections: 11, Renew: true}, "no free local port"},
		"few":          {dialogue.ClientSpec{Connections: 9}, ""},
		"few and anew": {dialogue.ClientSpec{Connections: 4, Renew: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			at := netip.AddrPortFrom(loopback, workloadtest.FreePort())
			var server *dialogue.Server
			var c *dialogue.Client
			if err := m.Do(func() (err error) {
				if server, err = dialogue.NewServer(dialogue.ServerSpec{Local: at, Answerer: handler(tt.spec.Renew)}); err != nil {
					return err
				}
				spec := tt.spec
				spec.Local, spec.Remote, spec.Asks = netip.AddrPortFrom(loopback, 0), at, asks(100)
				c, err = dialogue.NewClient(spec)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			defer c.Close()
			witness.Until(t, workloadtest.Borne(), func() error {
				start := time.Now()
				s, _ := both(t, server, c, 50*time.Millisecond)
				if took := time.Since(start); took > 500*time.Millisecond {
					return fmt.Errorf("it took %v", took)
				}
				if !strings.Contains(s.Failure, tt.want) || tt.want == "" && s.Failure != "" {
					return fmt.Errorf("%q, want %q", s.Failure, tt.want)
				}
				if tt.want == "" && tt.spec.Renew && s.Received < 20 {
					return fmt.Errorf("%d connections over ten ports", s.Received)
				}
				return nil
			})
		})
	}
}

// A side without descriptors reports that, and works again when there are some.
func TestNoDescriptors(t *testing.T) {
	workloadtest.Loopback(t)
	for _, renew := range []bool{false, true} {
		for _, more := range []int{20, 31} { // too few for the client, and enough for the client but not for the server
			at := netip.AddrPortFrom(loopback, workloadtest.FreePort())
			server, err := dialogue.NewServer(dialogue.ServerSpec{Local: at, Answerer: handler(renew)})
			if err != nil {
				t.Fatal(err)
			}
			c := client(t, dialogue.ClientSpec{Remote: at, Asks: asks(10), Connections: 30, Renew: renew})
			var source, sink traffic.Sample
			testnet.FewDescriptors(t, more, func() { source, sink = both(t, server, c, 30*time.Millisecond) })
			if !strings.Contains(source.Failure+sink.Failure, "too many open files (hint: ") {
				t.Errorf("renew %t, with %d descriptors: %q, %q", renew, more, source.Failure, sink.Failure)
			}
			witness.Until(t, workloadtest.Borne(), func() error {
				if source, sink = both(t, server, c, 50*time.Millisecond); source.Failure+sink.Failure != "" {
					return fmt.Errorf("renew %t, with descriptors: %q, %q", renew, source.Failure, sink.Failure)
				}
				return nil
			})
			server.Close()
		}
	}
}

// An answer may arrive in as many pieces as it has bytes.
func TestPieces(t *testing.T) {
	workloadtest.Loopback(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 1<<16)
		answer := handler(false)
		for kept := 0; ; {
			n, err := conn.Read(buf[kept:])
			if err != nil {
				return
			}
			kept += n
			for kept > 0 {
				taken, out, then := answer(buf[:kept], nil)
				if then == dialogue.Wait {
					break
				}
				kept = copy(buf, buf[taken:kept])
				for i := range out {
					if _, err := conn.Write(out[i : i+1]); err != nil {
						return
					}
				}
			}
		}
	}()
	c := client(t, dialogue.ClientSpec{
		Remote: l.Addr().(*net.TCPAddr).AddrPort(), Asks: asks(20), Connections: 1, Pipeline: 3,
	})
	witness.Until(t, workloadtest.Borne(), func() error {
		s := run(c, 100*time.Millisecond)
		// The server answers only one connection.
		if s.Failure != "" && !strings.Contains(s.Failure, "no response") {
			t.Fatal(s.Failure)
		}
		if s.Failure != "" || s.Doubt != "" || s.Received != s.Sent || s.Received == 0 || s.Errors != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// A server that dies in the middle of a trial ends the trial long before its close.
func TestServerDies(t *testing.T) {
	workloadtest.Loopback(t)
	for name, spec := range map[string]dialogue.ClientSpec{
		"closed":    {Connections: 5},
		"piped":     {Connections: 5, Pipeline: 5},
		"scheduled": {Connections: 5, Schedule: schedule(t, 3000)},
		"anew":      {Connections: 5, Renew: true},
	} {
		t.Run(name, func(t *testing.T) {
			at := netip.AddrPortFrom(loopback, workloadtest.FreePort())
			server, err := dialogue.NewServer(dialogue.ServerSpec{Local: at, Answerer: handler(spec.Renew)})
			if err != nil {
				t.Fatal(err)
			}
			spec.Remote, spec.Asks = at, asks(100)
			c := client(t, spec)
			go func() {
				server.Run(1, window(50*time.Millisecond))
				server.Close()
			}()
			start := clock.Now()
			s := run(c, 2*time.Second)
			if took := time.Duration(clock.Now() - start); took > time.Second {
				t.Errorf("it took %v", took)
			}
			if want := []string{
				"the server closed a connection", "a connection broke: ",
				// before it was accepted
				"connect to " + at.String() + ": connection refused", "connect to " + at.String() + ": connection reset by peer",
			}; !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(s.Failure, w) }) {
				t.Errorf("%q, want one of %q", s.Failure, want)
			}
		})
	}
}
