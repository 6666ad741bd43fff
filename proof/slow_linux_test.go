package proof_test

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// What a slow switch in userspace has not looked at yet is waited for: a leak is found, however late it comes.
func TestReachSlowly(t *testing.T) {
	l := proof.Lab{
		Hosts: []proof.Host{{Name: "host1"}}, Families: []string{"ipv4", "ipv6"}, MTU: 1500,
		Pairs: []proof.Pair{{Source: "src0", Sink: "snk0"}}, Filtered: true,
	}
	var plan host.Plan
	ports := []string{"vsrc0", "vsnk0"}
	for i, name := range []string{"src0", "snk0"} {
		v4, v6 := netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)}), netip.MustParseAddr(fmt.Sprintf("fd00:9::%d", 1+i))
		l.Hosts[0].Containers = append(l.Hosts[0].Containers, proof.Container{
			Name: name, Namespace: name, Inner: "eth0", IPv4: v4, IPv6: v6, PublicIPv4: v4, PublicIPv6: v6,
			First: uint16(20_000 + 100*i), Last: uint16(20_049 + 100*i),
		})
		plan.Steps = append(plan.Steps, host.Namespace{Name: name}, host.Veth{
			Name: ports[i], MTU: 1500, MAC: fmt.Sprintf("02:00:00:00:01:%02x", i), PeerNS: name, PeerName: "eth0",
			PeerMAC:       fmt.Sprintf("02:00:00:00:02:%02x", i),
			PeerAddresses: []string{v4.String() + "/24", v6.String() + "/64"},
		})
	}
	machine := stand(t, plan)
	var pause atomic.Int64
	if err := machine.Do(func() error { return forward(t, ports, &pause) }); err != nil {
		t.Fatal(err)
	}
	reach := func() measure.Matrix {
		t.Helper()
		m := proof.Reach(t.Context(), l, proof.Survey{Open: func(_ int, name string) (*os.File, error) {
			if name == "" {
				return os.Open(fmt.Sprintf("/proc/self/fd/%d", machine.NS.Fd()))
			}
			return netns.Open(machine.Dir + "/" + name)
		}})
		if m.NotTried != "" || m.Untold != "" {
			t.Fatalf("not tried: %q, cannot be told: %q", m.NotTried, m.Untold)
		}
		return m
	}
	quick := reach()
	if quick.LeaksAll == 0 {
		t.Fatalf("a switch that forwards everything: %+v", quick)
	}
	pause.Store(int64(10 * time.Millisecond))
	slow := reach()
	if diff := cmp.Diff(quick.Cells, slow.Cells); diff != "" || slow.LeaksAll != quick.LeaksAll || slow.MissingAll > 0 {
		t.Errorf("a slow switch: %d leaks, %d missing, want %d and none (-quick +slow):\n%s", slow.LeaksAll, slow.MissingAll,
			quick.LeaksAll, diff)
	}
}

// forward sends what comes to one of two links out of the other one, after a pause (ns) for each frame, until the test
// ends.
func forward(t *testing.T, links []string, pause *atomic.Int64) error {
	t.Helper()
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xffff
	var sockets [2]int
	for i, name := range links {
		s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		sockets[i] = s
		ifr, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, unix.SIOCGIFINDEX, ifr); err != nil {
			return err
		}
		if err := unix.Bind(s, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(ifr.Uint32())}); err != nil {
			return err
		}
		timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
		if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			return err
		}
	}
	var ended atomic.Bool
	var running sync.WaitGroup
	for i, from := range sockets {
		running.Go(func() {
			for frame := make([]byte, 1<<16); !ended.Load(); {
				n, at, err := unix.Recvfrom(from, frame, 0)
				if err != nil {
					continue // nothing came
				}
				if l, is := at.(*unix.SockaddrLinklayer); is && l.Pkttype != unix.PACKET_OUTGOING {
					time.Sleep(time.Duration(pause.Load()))
					_, _ = unix.Write(sockets[1-i], frame[:n])
				}
			}
		})
	}
	t.Cleanup(func() {
		ended.Store(true)
		running.Wait()
		for _, s := range sockets {
			_ = unix.Close(s)
		}
	})
	return nil
}
