package cni_test

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/testcni"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/cni"
)

// shown is what iproute2 shows of a link.
type shown struct {
	Flags     []string `json:"flags"`
	State     string   `json:"operstate"`
	Statistic struct {
		Sent struct {
			Packets int `json:"packets"`
		} `json:"tx"`
	} `json:"stats64"`
}

func show(t *testing.T, k *host.Kernel, ns, link string) shown {
	t.Helper()
	text, err := exec.Command("nsenter", "--net="+k.Path(ns), "ip", "-j", "-s", "link", "show", link).Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []shown
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	return list[0]
}

// The plugin tap leaves a container with a link that has no carrier: nothing that sockets send leaves it. This is why
// nettoll refuses it.
func TestTap(t *testing.T) {
	testnet.Slow(t, "the plugin tap, which nettoll refuses; TestParams has that")
	testnet.Program(t, "ip", "iproute2")
	k := steptest.Kernel(t, testnet.New(t), host.KernelConfig{})
	const conf = `{"cniVersion":"1.0.0","name":"taps","plugins":[{"type":"tap",` +
		`"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/16"}]]}}]}`
	add := func(container, address string) cni.Add {
		return cni.Add{
			Container: container, Conf: conf, Bin: []string{testcni.Plugins(t, "tap"), "/opt/cni/bin", "/usr/lib/cni"},
			Addresses: []string{address}, MTU: 1500,
		}
	}
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		host.Namespace{Name: "src0"}, host.Namespace{Name: "snk0"}, add("src0", "10.1.0.2/16"), add("snk0", "10.1.0.3/16"),
	}}))
	t.Cleanup(func() {
		if err := s.Undo(context.Background(), k); err != nil {
			t.Error(err)
		}
	})
	var sink *net.UDPConn
	if err := k.Do("snk0", func() (err error) {
		sink, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.1.0.3:7000")))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	var source *net.UDPConn
	if err := k.Do("src0", func() (err error) {
		source, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.1.0.2:7000")),
			net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.1.0.3:7000")))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for range 10 {
		if _, err := source.Write([]byte("anybody?")); err != nil {
			t.Logf("send: %v", err)
		}
	}
	is := show(t, k, "src0", "eth0")
	t.Logf("eth0 of src0: %+v", is)
	if !slices.Contains(is.Flags, "UP") || !slices.Contains(is.Flags, "NO-CARRIER") || is.Statistic.Sent.Packets != 0 {
		t.Errorf("the link of the plugin tap is %+v, want one that is up, has no carrier and has sent nothing", is)
	}
	if err := sink.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := sink.Read(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes arrived at another container: nettoll could measure the plugin tap", n)
	}
}
