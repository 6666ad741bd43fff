package ping_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/ping"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// groups allow the kernel's own echo sockets to nobody or to everybody (icmp(7)).
const (
	nobody    = "1 0"
	everybody = "0 2147483647"
)

// With both families and both kinds of sockets, flooding or not, the number sent is the number that the kernel reports
// as answered. Two pairs with the same trial ids and numbers do not take each other's answers.
func TestWays(t *testing.T) {
	m := testnet.New(t)
	if err := m.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		return errors.Join(err, h.SetUp(lo.Index, true))
	}); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		at := workloadtest.Where{Address: netip.MustParseAddr(address), Do: m.Do}
		for _, groups := range []string{nobody, everybody} {
			for _, interval := range []string{"flood", "500us"} {
				t.Run(fmt.Sprintf("%s, groups %s, %s", address, groups, interval), func(t *testing.T) {
					if err := m.Do(func() error { return sysctl.Write("net.ipv4.ping_group_range", groups) }); err != nil {
						t.Fatal(err)
					}
					r := workloadtest.NewRig(t, ping.Workload{}, workloadtest.Options{
						Pairs: 2, Length: 20 * time.Millisecond, Given: map[string]string{"interval": interval, "payload": "100"},
						Where: map[workload.Side]workloadtest.Where{workload.Source: at, workload.Sink: at},
					})
					if facts, err := r.Sources[0].Facts(); err != nil || facts.Raw != (groups == nobody) {
						t.Errorf("facts %+v, %v", facts, err)
					}
					witness.Until(t, workloadtest.Borne(), func() error {
						before := answered(t, m)
						trial, _ := r.Trial(t)
						kernel := answered(t, m) - before
						var total, sent, received, late int64
						for _, s := range trial.Sources {
							total, sent, received, late = total+s.Total, sent+s.Sent, received+s.Received, late+s.Late
						}
						if total != kernel {
							t.Errorf("the kernel answered %d requests of %d", kernel, total)
						}
						if sent > 0 && sent == received && late == 0 {
							return nil
						}
						return fmt.Errorf("answers were lost or late: %+v", trial.Sources)
					})
				})
			}
		}
	}
}

// answered returns the number of echo replies of both families that the machine has sent.
func answered(t *testing.T, m *testnet.Machine) int64 {
	t.Helper()
	var sum int64
	err := m.Do(func() error {
		four, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		six, err := os.ReadFile("/proc/thread-self/net/snmp6")
		if err != nil {
			return err
		}
		var names []string
		for line := range strings.Lines(string(four)) {
			rest, found := strings.CutPrefix(line, "Icmp:")
			switch fields := strings.Fields(rest); {
			case found && names == nil:
				names = fields
			case found:
				for i, name := range names {
					if name == "OutEchoReps" {
						var n int64
						if _, err := fmt.Sscan(fields[i], &n); err != nil {
							return err
						}
						sum += n
					}
				}
			}
		}
		for line := range strings.Lines(string(six)) {
			if rest, found := strings.CutPrefix(line, "Icmp6OutEchoReplies"); found {
				var n int64
				if _, err := fmt.Sscan(rest, &n); err != nil {
					return err
				}
				sum += n
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// The kernel that answers cannot be made to stand still, so the path does: a link behind which this test answers.
func TestStall(t *testing.T) {
	near, elsewhere := testnet.New(t), testnet.New(t)
	network := netip.MustParsePrefix("192.0.2.1/24")
	far := newFar(t, near, network)
	// The sink's endpoint only waits, in a namespace that also has the address.
	if err := elsewhere.Do(func() error {
		return address("lo", netip.PrefixFrom(network.Addr().Next(), network.Bits()))
	}); err != nil {
		t.Fatal(err)
	}
	where := map[workload.Side]workloadtest.Where{
		workload.Source: {Address: network.Addr(), Do: near.Do},
		workload.Sink:   {Address: network.Addr().Next(), Do: elsewhere.Do},
	}
	rig := func(interval string, still bool) *workloadtest.Rig {
		return workloadtest.NewRig(t, ping.Workload{}, workloadtest.Options{
			Pairs: 1, Length: workloadtest.StallLength, Given: map[string]string{"interval": interval}, Where: where,
			Wrap: func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
				switch {
				case side == workload.Sink:
					return struct{ traffic.Endpoint }{e} // the wrapper does not check the requests
				case still:
					return &beside{e, far}
				}
				return e
			},
		})
	}
	workloadtest.Stalls(t, workloadtest.Even(), rig("100us", true), rig("100us", false), rig("flood", true))
}

// If another machine answers at the sink's address, the trial fails.
func TestElsewhere(t *testing.T) {
	near, elsewhere := testnet.New(t), testnet.New(t)
	network := netip.MustParsePrefix("192.0.2.1/24")
	newFar(t, near, network)
	if err := elsewhere.Do(func() error {
		return address("lo", netip.PrefixFrom(network.Addr().Next(), network.Bits()))
	}); err != nil {
		t.Fatal(err)
	}
	r := workloadtest.NewRig(t, ping.Workload{},
		workloadtest.Options{Pairs: 1, Length: 10 * time.Millisecond, Where: map[workload.Side]workloadtest.Where{
			workload.Source: {Address: network.Addr(), Do: near.Do},
			workload.Sink:   {Address: network.Addr().Next(), Do: elsewhere.Do},
		}})
	trial, _ := r.Trial(t)
	if got, want := trial.Failure(), "no echo request arrived in the sink's container"; trial.Sources[0].Total == 0 ||
		!strings.Contains(got, want) {
		t.Errorf("%q after %d requests, want %q", got, trial.Sources[0].Total, want)
	}
}

// beside is a source during whose trials the far end stands still at intervals.
type beside struct {
	traffic.Endpoint
	far *far
}

func (b *beside) Run(trial uint64, w traffic.Window) {
	b.far.open.Store(w.Open)
	b.Endpoint.Run(trial, w)
	b.far.open.Store(0)
}

// far is the far end of a TUN link.
type far struct {
	open atomic.Int64 // ns: opening of the trial during which it stands still; 0: there is none
	done atomic.Bool
}

// address gives a link an address and sets it up.
func address(name string, a netip.Prefix) error {
	h, err := link.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.ByName(name)
	if err != nil {
		return err
	}
	return errors.Join(h.AddAddress(l.Index, a), h.SetUp(l.Index, true))
}

// newFar makes a TUN link with an address, and answers echo requests at its far end.
func newFar(t *testing.T, m *testnet.Machine, a netip.Prefix) *far {
	t.Helper()
	fd := -1
	err := m.Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return &linux.UnsupportedError{What: "make a TUN link", Missing: "/dev/net/tun"}
		}
		request, err := unix.NewIfreq("tun0")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		return errors.Join(unix.IoctlIfreq(fd, unix.TUNSETIFF, request), address("tun0", a))
	})
	testnet.Skip(t, err)
	f := &far{}
	ended := make(chan struct{})
	t.Cleanup(func() {
		f.done.Store(true)
		<-ended
		_ = unix.Close(fd)
	})
	go func() {
		defer close(ended)
		f.answer(fd)
	}()
	return f
}

// answer answers IPv4 echo requests until the test is over, on the CPU of the sinks: on that of a source that polls for
// its next request, it would have to wait.
func (f *far) answer(fd int) {
	runtime.LockOSThread() // never unlocked: the thread ends with the function
	if cpus, err := thread.CPUs(); err == nil {
		_ = thread.Pin(cpus[len(cpus)/2]) // if this fails, it is slower
	}
	const tick = 100 // ms
	packet := make([]byte, 2048)
	for !f.done.Load() {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, tick); err != nil || n == 0 {
			continue
		}
		n, err := unix.Read(fd, packet)
		const header, icmp, request = 20, 1, 8
		if err != nil || n < header+traffic.EchoHeader || packet[0] != 0x45 || packet[9] != icmp ||
			packet[header] != request {
			continue
		}
		if open := f.open.Load(); open > 0 {
			traffic.StandStill(open, workloadtest.StallEvery, workloadtest.StallFor)
		}
		from, to := [4]byte(packet[12:16]), [4]byte(packet[16:20])
		copy(packet[12:], to[:])
		copy(packet[16:], from[:])
		packet[header] = 0 // a reply; its checksum increases by as much as its type decreases (RFC 1624)
		sum := uint32(binary.BigEndian.Uint16(packet[header+2:])) + request<<8
		binary.BigEndian.PutUint16(packet[header+2:], uint16(sum+sum>>16))
		_, _ = unix.Write(fd, packet[:n])
	}
}
