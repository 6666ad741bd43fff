package proof_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// An answer that must not come is waited for as long as packets are on their way there and back.
func TestPatience(t *testing.T) {
	workloadtest.Loopback(t)
	const late = 200 * time.Millisecond
	loopback := net.IPv4(127, 0, 0, 1)
	to, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := to.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			answer := append([]byte{}, buf[:n]...)
			time.AfterFunc(late, func() { _, _ = to.WriteToUDPAddrPort(answer, from) })
		}
	}()
	here := proof.Here{In: func(_ proof.End, f func() error) error { return f() }}
	for _, c := range []struct {
		proof.Patience
		answered bool
	}{
		{proof.Patience{}, false},
		{proof.Patience{Trip: 2 * late}, true},
	} {
		from, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback})
		if err != nil {
			t.Fatal(err)
		}
		local := from.LocalAddr().(*net.UDPAddr).AddrPort()
		from.Close()
		sink := to.LocalAddr().(*net.UDPAddr).AddrPort()
		seen := here.Try(t.Context(), []proof.Try{{
			From: end(local), To: end(sink), Patience: c.Patience,
		}})
		if len(seen) != 1 || seen[0].NotTried != "" || seen[0].Answered != c.answered {
			t.Errorf("%+v: %+v, want answered %v", c.Patience, seen, c.answered)
		}
	}
}

func end(at netip.AddrPort) proof.End {
	return proof.End{Local: at, Public: at}
}

// All tries of a lab have its patience.
func TestPatienceOfClaims(t *testing.T) {
	l := described(3)
	l.Patience = proof.Patience{Trip: time.Second, Lossy: true}
	tries := 0
	for _, c := range l.Claims(nil) {
		for _, try := range c.Tries {
			if tries++; try.Patience != l.Patience {
				t.Errorf("%s: %+v", try.Name, try.Patience)
			}
		}
	}
	if tries < 12 {
		t.Errorf("only %d tries", tries)
	}
}
