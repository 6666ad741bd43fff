package softirq

import (
	"net"
	"runtime"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/probe/probetest"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	testnet.Root(t)
	workloadtest.Loopback(t)
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	probetest.Conformance(t, Probe{}, cpus, echo)
}

// echo sends some datagrams over the loopback device and receives them. Each of them takes a softirq.
func echo(t *testing.T) {
	t.Helper()
	to, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	from, err := net.Dial("udp", to.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	buf := make([]byte, 16)
	for range 100 {
		if _, err := from.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, _, err := to.ReadFrom(buf); err != nil {
			t.Fatal(err)
		}
	}
}
