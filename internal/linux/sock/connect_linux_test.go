package sock_test

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
)

// patience is shorter than the 10 ms after which the Go runtime sends a thread a signal. The signal ends a call, whose
// time then begins again.
const patience = 4 * time.Millisecond

// inside returns a machine whose loopback link is up.
func inside(t *testing.T) *testnet.Machine {
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
		return h.SetUp(lo.Index, true)
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// again repeats a call until no signal interrupts it.
func again(call func() sock.Errno) sock.Errno {
	for {
		if e := call(); e != sock.Interrupted {
			return e
		}
	}
}

// Sockets made in a loop have the requested options, and so do those accepted from a listening one.
func TestMaker(t *testing.T) {
	m := inside(t)
	for _, ip := range []string{"127.0.0.1", "::1"} {
		t.Run(ip, func(t *testing.T) {
			at := netip.AddrPortFrom(netip.MustParseAddr(ip), 7000)
			o := sock.Options{SendBuffer: 100_000, RecvBuffer: 50_000, DSCP: 46, NoDelay: true, Congestion: "reno"}
			var listener sock.Socket
			var maker *sock.Maker
			var near [2]sock.Socket
			var errno [2]sock.Errno
			if err := m.Do(func() (err error) {
				if listener, err = sock.Stream(at, ""); err != nil {
					return err
				}
				if err = listener.Set(o); err != nil {
					return err
				}
				var facts sock.Facts
				if maker, facts, err = sock.NewMaker(netip.AddrPortFrom(at.Addr(), 0), o, patience); err != nil {
					return err
				}
				if facts.SendBuffer != 200_000 || facts.RecvBuffer != 100_000 || facts.Congestion != "reno" || facts.MSS != 0 {
					t.Errorf("granted: %+v", facts)
				}
				near[0], errno[0] = maker.Make(8000)
				near[1], errno[1] = maker.Make(0)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := listener.SetTimeout(patience); err != nil {
				t.Fatal(err)
			}
			if err := listener.Listen(); err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			to := sock.NewAddress(at)
			for i, s := range near {
				if errno[i] != 0 {
					t.Fatal(errno[i])
				}
				defer s.Drop()
				if e := s.ConnectTo(&to); e != 0 && e != sock.Interrupted { // the kernel continues to connect
					t.Fatal(e)
				}
				far, e := listener.AcceptNext()
				if e != 0 {
					t.Fatal(e)
				}
				defer far.Drop()
				for _, end := range []sock.Socket{s, far} {
					got, err := end.Facts()
					if err != nil {
						t.Fatal(err)
					}
					if got.SendBuffer != 200_000 || got.RecvBuffer != 100_000 || got.Congestion != "reno" {
						t.Errorf("socket %d: %+v", i, got)
					}
					if nodelay, err := unix.GetsockoptInt(end.FD, unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || nodelay == 0 {
						t.Errorf("socket %d delays (%v)", i, err)
					}
					level, name := unix.IPPROTO_IP, unix.IP_TOS
					if at.Addr().Is6() {
						level, name = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
					}
					if tos, err := unix.GetsockoptInt(end.FD, level, name); err != nil || tos != 46<<2 {
						t.Errorf("socket %d: type of service %d (%v)", i, tos, err)
					}
					var b [1]byte
					if e := again(func() sock.Errno { _, e := end.Recv(&b[0], 1, 0); return e }); e != sock.Again {
						t.Errorf("socket %d receives nothing: %v, want %v after its timeout", i, e, sock.Again)
					}
				}
			}
			if local, err := near[0].Local(); err != nil || local.Port() != 8000 {
				t.Errorf("bound to %s (%v)", local, err)
			}
			if e := again(func() sock.Errno { _, e := listener.AcceptNext(); return e }); e != sock.Again {
				t.Errorf("accepted from nobody: %v", e)
			}
			if n := testing.AllocsPerRun(10, func() {
				s, _ := maker.Make(0)
				to.SetPort(7001)
				s.ConnectTo(&to)
				s.Drop()
			}); n != 0 {
				t.Errorf("%v allocations for a connection", n)
			}
		})
	}
}

func TestMakerRefuses(t *testing.T) {
	m := inside(t)
	err := m.Do(func() error {
		_, _, err := sock.NewMaker(netip.MustParseAddrPort("127.0.0.1:0"), sock.Options{Congestion: "no-such"}, time.Second)
		return err
	})
	if err == nil {
		t.Error("a congestion control that does not exist is accepted")
	}
}
