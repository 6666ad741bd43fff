package ovs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	driver "github.com/nettoll/nettoll/internal/linux/ovs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/ovs"
)

// raise builds a lab of one host.
func raise(t *testing.T, pairs int) (*networktest.Bed, map[string]string) {
	t.Helper()
	b, err := networktest.MakeBed(t, ovs.Network{}, networktest.Lab(1, pairs))
	if err != nil {
		testnet.Skip(t, err)
	}
	before, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Apply(t); err != nil {
		testnet.Skip(t, err)
	}
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	return b, before
}

// A program that dies is named with what it said last, and everything is gone all the same after the undo.
func TestDeath(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	for _, name := range []string{driver.Daemon, driver.Server} {
		t.Run(name, func(t *testing.T) {
			b, before := raise(t, 1)
			k := b.Hosts[0].Kernel
			if err := syscall.Kill(pid(t, k, name), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(20 * time.Second)
			for died(k, name) == "" {
				if time.Now().After(deadline) {
					t.Fatal("it was killed, and is not told to have died")
				}
				time.Sleep(time.Millisecond)
			}
			if said := died(k, name); !strings.Contains(said, "killed") || !strings.Contains(said, "its last lines") {
				t.Errorf("its death is told as %q", said)
			}
			err := b.Verify(t)
			if drift, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(drift.Error(), name) {
				t.Errorf("Verify = %v, want a drift that names %s", err, name)
			}
			if err := b.Undo(); err != nil {
				t.Fatal(err)
			}
			after, err := b.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("undone, it is not as it was (-before +after):\n%s", diff)
			}
			if err := b.Apply(t); err != nil {
				t.Errorf("it cannot be built once more: %v", err)
			}
		})
	}
}

func pid(t *testing.T, k *host.Kernel, name string) int {
	t.Helper()
	for _, p := range k.Programs() {
		if p.Name == name {
			return p.PID
		}
	}
	t.Fatalf("%s does not run", name)
	return 0
}

func died(k *host.Kernel, name string) string {
	for _, p := range k.Programs() {
		if p.Name == name && p.Died != "" {
			return p.Died
		}
	}
	return ""
}

// Verify notices what is changed in the switch behind the back of its step.
func TestTampering(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	b, _ := raise(t, 1)
	k := b.Hosts[0].Kernel
	dir, err := k.RunDir(driver.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	i := driver.Instance{Dir: dir}
	bridge, database := "unix:"+i.Bridge("br0"), "--db=unix:"+i.Database()
	for _, c := range []struct{ what, want, do, undo string }{
		{"a flow that is nobody's", "flows of unknown owner", "ovs-ofctl add-flow " + bridge +
			" table=0,priority=9,actions=drop", "ovs-ofctl --strict del-flows " + bridge + " table=0,priority=9"},
		{"a flow less", "flow table=10", "ovs-ofctl del-flows " + bridge + " table=10", "ovs-ofctl add-flow " +
			bridge + fmt.Sprintf(" cookie=%#x,table=10,priority=0,actions=NORMAL", driver.CookieNetwork)},
		{"a port less", "number of port vsnk0", "ovs-vsctl " + database + " del-port br0 vsnk0", "ovs-vsctl " + database +
			" add-port br0 vsnk0 -- set interface vsnk0 ofport_request=2"},
		{"another MTU", "mtu of br0", "ovs-vsctl " + database + " set interface br0 mtu_request=1400", "ovs-vsctl " +
			database + " set interface br0 mtu_request=1440"},
		{"a mirror", `copies of packets: want none, got Mirror "leak"`, "ovs-vsctl " + database +
			" -- --id=@p get port vsnk0 -- --id=@m create mirror name=leak select-all=true output-port=@p" +
			" -- set bridge br0 mirrors=@m", "ovs-vsctl " + database + " clear bridge br0 mirrors"},
		{"NetFlow", "got NetFlow", "ovs-vsctl " + database +
			" -- --id=@n create netflow targets=127.0.0.1\\:5566 -- set bridge br0 netflow=@n", "ovs-vsctl " +
			database + " clear bridge br0 netflow"},
		{"sFlow", "got sFlow", "ovs-vsctl " + database +
			" -- --id=@s create sflow targets=127.0.0.1\\:6343 -- set bridge br0 sflow=@s", "ovs-vsctl " + database +
			" clear bridge br0 sflow"},
		{"IPFIX", "got IPFIX", "ovs-vsctl " + database +
			" -- --id=@i create ipfix targets=127.0.0.1\\:4739 -- set bridge br0 ipfix=@i", "ovs-vsctl " + database +
			" clear bridge br0 ipfix"},
	} {
		t.Run(c.what, func(t *testing.T) {
			run := func(line string) {
				args := strings.Fields(line)
				if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", line, err, out)
				}
			}
			run(c.do)
			err := b.Verify(t)
			if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Verify = %v, want a drift of %q", err, c.want)
			}
			run(c.undo)
			if err := b.Verify(t); err != nil {
				t.Errorf("put back, Verify = %v", err)
			}
		})
	}
}

// Many pairs are one transaction, and the figures of the lab are there.
func TestManyPairs(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	b, _ := raise(t, 32)
	m := b.Hosts[0]
	if err := m.Stack.MeasureCost(t.Context(), m.Kernel); err != nil {
		t.Fatal(err)
	}
	report := m.Kernel.Report()
	if first := report.Metrics["first_packet_latency"]; first <= 0 || first > 1 {
		t.Errorf("the first packet takes %v s", first)
	}
	if who := report.Implementations["network"]; !strings.HasPrefix(who, "ovs (") ||
		!strings.Contains(who, " datapath, max-revalidator ") {
		t.Errorf("the work is done by %q", who)
	}
	if len(report.Programs) != 2 {
		t.Errorf("the programs are %+v, want two", report.Programs)
	}
}

// What cannot be built is said before, and Apply leaves nothing behind.
func TestRefusals(t *testing.T) {
	if err := (ovs.Network{}).Check(map[string]string{"datapath": "kernel"}); err != nil &&
		(!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "datapath=userspace")) {
		testnet.Skip(t, ovs.Network{}.Check(nil)) // neither would do
		t.Errorf("Check = %v, want what would do instead", err)
	}
	t.Setenv("PATH", t.TempDir())
	err := ovs.Network{}.Check(nil)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "openvswitch-switch") {
		t.Errorf("without programs Check = %v, want the package that has them", err)
	}
}

// A port that is no link fails the step, which leaves nothing.
func TestWrongPort(t *testing.T) {
	b, err := networktest.MakeBed(t, ovs.Network{}, networktest.Lab(1, 0))
	if err != nil {
		testnet.Skip(t, err)
	}
	m := b.Hosts[0]
	before, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	step := ovs.Switch{
		Name: "br0", MAC: "02:00:00:00:00:01", MTU: 1440, Datapath: "userspace",
		Ports: []ovs.Port{{Name: "nothing", Inner: "lo"}},
	}
	if err := m.Stack.Apply(t.Context(), m.Kernel, host.Plan{Steps: []host.Step{step}}); err == nil ||
		!strings.Contains(err.Error(), `port "nothing"`) {
		testnet.Skip(t, err)
		t.Errorf("Apply = %v, want the port", err)
	}
	after, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("it leaves something (-before +after):\n%s", diff)
	}
	dir, err := m.Kernel.RunDir("log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/../" + driver.RunDir); err == nil {
		t.Error("its directory is left")
	}
}
