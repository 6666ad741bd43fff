package ovs_test

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/packet"
)

// TestBoundInTurn has a container ask for its neighbour with its own MAC address and then with another one, and the
// other way round: with antispoof the first question passes and the second does not, whichever comes first. Flows of the
// kernel's datapath live for seconds, and one that did not compare what messages say decided for all of them.
func TestBoundInTurn(t *testing.T) {
	other := net.HardwareAddr{2, 0, 0, 0, 0, 0xfe}
	for _, tt := range []struct {
		name   string
		honest bool // first
	}{{"its own first", true}, {"another one first", false}} {
		t.Run(tt.name, func(t *testing.T) {
			m, site, _ := raise(t, map[string]string{"antispoof": "true"})
			k := m.Kernel
			out, own := frames(t, k, site.List.Proof.SourceNS)
			in, _ := frames(t, k, site.List.Proof.SinkNS)
			defer out.Close()
			heard := listen(in)
			from, of := address(t, k, site.List.Proof.SourceNS), address(t, k, site.List.Proof.SinkNS)
			ask := func(mac net.HardwareAddr) {
				to, p := packet.Solicitation(mac, from, of)
				if _, err := out.Write(packet.Frame(to, own, packet.TypeIPv6, p)); err != nil {
					t.Fatal(err)
				}
			}
			asks := []func(){
				func() { // on a busy machine a daemon takes its time
					ask(own)
					for end := time.Now().Add(5 * time.Second); heard(own) == 0; time.Sleep(10 * time.Millisecond) {
						if time.Now().After(end) {
							t.Errorf("a question with its own MAC address does not arrive")
							return
						}
					}
				},
				func() {
					ask(other)
					time.Sleep(300 * time.Millisecond)
				},
			}
			if !tt.honest {
				slices.Reverse(asks)
			}
			for _, f := range asks {
				f()
			}
			if n := heard(other); n > 0 {
				t.Errorf("%d questions with another MAC address arrive", n)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// frames opens the link of a container, and returns its MAC address.
func frames(t *testing.T, k *host.Kernel, ns string) (f *os.File, mac net.HardwareAddr) {
	t.Helper()
	links, err := k.Links(ns)
	if err != nil {
		t.Fatal(err)
	}
	l, err := links.ByName(network.Inner)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Do(ns, func() (err error) { f, err = sock.Frames(l.Index); return err }); err != nil {
		t.Fatal(err)
	}
	return f, l.MAC
}

// address returns the address of IPv6 that a container was given.
func address(t *testing.T, k *host.Kernel, ns string) netip.Addr {
	t.Helper()
	links, err := k.Links(ns)
	if err != nil {
		t.Fatal(err)
	}
	l, err := links.ByName(network.Inner)
	if err != nil {
		t.Fatal(err)
	}
	list, err := links.Addresses(l.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Addr().Is6() && !a.Addr().IsLinkLocalUnicast() {
			return a.Addr()
		}
	}
	t.Fatalf("%s has no address of IPv6", ns)
	return netip.Addr{}
}

// listen counts solicitations by the MAC address in their option, until the file is closed.
func listen(f *os.File) (heard func(mac net.HardwareAddr) int) {
	var mu sync.Mutex
	options := map[string]int{}
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := f.Read(buf)
			if errors.Is(err, fs.ErrClosed) {
				return
			}
			const ethernet, ip, body, option = 14, 40, 24, 8
			if err != nil || n != ethernet+ip+body+option || buf[ethernet+6] != packet.ICMPv6 || buf[ethernet+ip] != 135 {
				continue
			}
			mu.Lock()
			options[net.HardwareAddr(buf[n-6:n]).String()]++
			mu.Unlock()
		}
	}()
	return func(mac net.HardwareAddr) int {
		mu.Lock()
		defer mu.Unlock()
		return options[mac.String()]
	}
}
