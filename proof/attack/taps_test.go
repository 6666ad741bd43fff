package attack

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// Who waits for the packets of a try waits on while some arrive, and not for ever.
func TestQuiet(t *testing.T) {
	magic := []byte("magic---")
	for _, c := range []struct {
		name    string
		packets int // one each 5 ticks
		want    time.Duration
	}{
		{"nothing arrives", 0, 12 * tick},
		{"three are late", 3, 28 * tick},
		{"they never end", 30, 100 * tick},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taps := newTaps()
				var sent sync.WaitGroup
				sent.Go(func() {
					time.Sleep(tick / 2)
					for i := range 30 {
						time.Sleep(5 * tick)
						taps.note(atLink, 0, 0, []byte("a packet of somebody else"), magic)
						if i < c.packets {
							packet := binary.BigEndian.AppendUint32(slices.Clip(magic), uint32(i))
							taps.note(atLink, 0, 0, append(packet, 0, 0), magic)
						}
					}
				})
				began := time.Now()
				err := taps.quiet(12, 100)
				if took := time.Since(began); took != c.want || err != nil {
					t.Errorf("it waits %v, want %v: %v", took, c.want, err)
				}
				sent.Wait()
			})
		})
	}
}

// What has to be answered may be late, as where TCP has to repeat a packet. What must not be is not waited for as long.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(within time.Duration) bool {
			const repeated = 3500 * time.Millisecond
			time.Sleep(min(within, repeated))
			return within >= repeated
		}
		s := newStand(Target{})
		for _, want := range []expectation{passes, refused} {
			p, began := probe{expect: want, asks: late, yes: new(atomic.Bool)}, time.Now()
			if _, err := s.ask([]probe{p}); err != nil {
				t.Fatal(err)
			}
			if got := s.heard(p); got != (want == passes) {
				t.Errorf("expectation %d: answered: %t", want, got)
			}
			if took := time.Since(began); want == refused && took > time.Second {
				t.Errorf("an answer that must not come is waited for %v", took)
			}
		}
	})
}

// What waits at a tap that is not read, as on a busy machine, has arrived all the same.
func TestQuietUnread(t *testing.T) {
	workloadtest.Loopback(t)
	listens, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listens.Close()
	if _, err := listens.WriteTo([]byte("a datagram"), listens.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	taps := newTaps()
	taps.sockets = append(taps.sockets, socket{Conn: listens})
	if err := taps.quiet(1, 5); err == nil || !strings.Contains(err.Error(), "were not read in time") {
		t.Errorf("what nobody reads: %v", err)
	}
	read := make(chan error, 1)
	time.AfterFunc(10*tick, func() {
		_, err := listens.Read(make([]byte, 64))
		read <- err
	})
	began := time.Now()
	if err := taps.quiet(2, 1000); err != nil || time.Since(began) < 10*tick {
		t.Errorf("it has waited %v until it was read: %v", time.Since(began), err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// What a policy of IPsec refuses at a host is no packet that a tap had no room for, although its socket counts it.
func TestQueuesBehindPolicies(t *testing.T) {
	testnet.Program(t, "ip", "iproute2")
	m := testnet.New(t)
	taps := newTaps()
	if err := taps.host(&machine{ns: m.NS}, make([]byte, 8), make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	defer taps.close()
	if err := m.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/lo/disable_policy", []byte("0"), 0); err != nil {
			return err
		}
		for _, command := range []string{
			"ip link set lo up", "ip xfrm policy add src 127.0.0.2/32 dst 127.0.0.1/32 dir in action block",
		} {
			args := strings.Fields(command)
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", command, err, out)
			}
		}
		c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("a datagram"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var counted uint64
	for _, s := range taps.sockets {
		_, dropped, err := sock.ReceiveQueue(s)
		if err != nil {
			t.Fatal(err)
		}
		counted += dropped
	}
	if counted == 0 {
		t.Error("no socket counts what the policy refuses, so this test shows nothing")
	}
	if _, dropped := taps.queues(); dropped != 0 {
		t.Errorf("%d packets count as lost", dropped)
	}
}
