package docker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// TestDefaultBridge compares the network of a lab with Docker's default bridge, docker0. Each has a container with a
// published port. The rules of iptables and ip6tables, in their order, and the settings of the bridge and its port are
// equal but for names, addresses and ports, so packets take the same path. Beside docker0, the host and the network of
// the lab have exactly the rules and settings that they have without it.
func TestDefaultBridge(t *testing.T) {
	testnet.Skip(t, docker.Runtime{}.Check(nil))
	for _, program := range []string{"iptables", "ip6tables"} {
		testnet.Program(t, program, "iptables")
	}
	for _, proxy := range []bool{false, true} {
		t.Run(fmt.Sprintf("proxy=%t", proxy), func(t *testing.T) {
			daemon := docker.Daemon{Networks: true, Proxy: proxy}
			alone := bridged(t, daemon)
			both := bridged(t, docker.Default{Daemon: daemon, IPv6: "fd00:172:17::/64"})
			byDefault := inhabited(t, both)

			network, rest := split(look(t, both), ofLab)
			theirs, all := split(rest, byDefault)
			for begin, least := range map[string]int{"iptables ": 12, "ip6tables ": 12, "/proc/": 100, "/sys/": 50} {
				n := 0
				for _, line := range network {
					if strings.HasPrefix(line, begin) {
						n++
					}
				}
				if n < least {
					t.Errorf("%d lines %sare of the network of the lab, want %d or more:\n%s", n, begin, least,
						strings.Join(network, "\n"))
				}
			}
			if diff := cmp.Diff(network, theirs); diff != "" {
				t.Errorf("rules and settings (-network of a lab +docker0):\n%s", diff)
			}
			networkAlone, allAlone := split(look(t, alone), ofLab)
			if diff := cmp.Diff(networkAlone, network); diff != "" {
				t.Errorf("rules and settings of the network of a lab (-without docker0 +beside it):\n%s", diff)
			}
			if diff := cmp.Diff(allAlone, all); diff != "" {
				t.Errorf("rules and settings of the host (-without docker0 +with it):\n%s", diff)
			}
		})
	}
}

// ofLab are the names and addresses of the network of a lab: pairs of what is replaced, and by what.
var ofLab = []string{
	"10.1.1.0", "CONTAINER4", "10.1.0.0/16", "RANGE4", "fd00:10:1::1:0", "CONTAINER6", "fd00:10:1::/64", "RANGE6",
	"vsrc0", "LINK", "br0", "BRIDGE", "port 20000", "port NUMBER", ":20000", ":NUMBER",
}

// bridged returns a host with a daemon, and with a container in a network of a lab by Docker.
func bridged(t *testing.T, daemon host.Step) *host.Kernel {
	t.Helper()
	k := runtimetest.Kernel(t, testnet.New(t))
	s := new(host.Stack)
	t.Cleanup(func() {
		if err := s.Undo(context.Background(), k); err != nil {
			t.Error(err)
		}
	})
	gateways, addresses := []string{"10.1.0.1/16", "fd00:10:1::1/64"}, []string{"10.1.1.0/16", "fd00:10:1::1:0/64"}
	if err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		docker.Containerd{},
		daemon,
		docker.Container{Contained: runtime.Contained{Name: "src0", Namespace: "src0"}, Published: "20000"},
		host.Link{Name: "lo", Up: true},
		docker.Bridge{Name: "br0", MAC: "22:b0:11:ee:03:a3", MTU: 1500, Gateways: gateways},
		docker.Join{Container: "src0", Link: runtime.Link{Type: runtime.TypeVeth, Master: "br0", Upper: host.Upper{
			NS: "src0", Name: "eth0", Lower: "vsrc0", MAC: "1a:7e:00:3c:99:ff", MTU: 1500, Addresses: addresses,
		}}},
	}}); err != nil {
		t.Fatal(err)
	}
	return k
}

// inhabited runs a container on docker0 as a user would, and returns the names and addresses there, as ofLab are.
func inhabited(t *testing.T, k *host.Kernel) []string {
	t.Helper()
	box := testnet.Program(t, "busybox", "busybox-static")
	group := fmt.Sprintf("/docker-default-%d", os.Getpid())
	ask := func(args ...string) string {
		t.Helper()
		out, err := docker.Run(context.Background(), k, args...)
		if err != nil {
			t.Fatalf("docker %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(out)
	}
	const refused = "user specified IP address is supported on user defined networks only" // why labs have another network
	chosen := []string{"run", "--name", "chosen", "--ip", "172.17.0.9", runtime.Image, "/none"}
	out, err := docker.Run(context.Background(), k, chosen...)
	if err == nil || !strings.Contains(out, refused) {
		t.Errorf("a container with a chosen address on docker0: %v, %q, want %q", err, out, refused)
	}
	ask("rm", "--force", "chosen")
	args := []string{"run", "--detach", "--name", "theirs", "--cgroup-parent", group, "--volume", box + ":/sleep:ro"}
	args = append(args, runtime.Publish("20100")...)
	ask(append(args, runtime.Image, "/sleep", "1000000")...)
	t.Cleanup(func() {
		ask("rm", "--force", "theirs")
		if err := cgroup.Remove(group); err != nil {
			t.Error(err)
		}
	})
	const form = "{{.NetworkSettings.IPAddress}} {{.NetworkSettings.GlobalIPv6Address}}"
	addresses := strings.Fields(ask("inspect", "--format", form, "theirs"))
	link := strings.Fields(inside(t, k, "ls /sys/class/net/docker0/brif"))
	if len(addresses) != 2 || len(link) != 1 {
		t.Fatalf("on docker0 are addresses %q and links %q, want two and one", addresses, link)
	}
	return []string{
		addresses[0], "CONTAINER4", "172.17.0.0/16", "RANGE4", addresses[1], "CONTAINER6", "fd00:172:17::/64", "RANGE6",
		link[0], "LINK", "docker0", "BRIDGE", "port 20100", "port NUMBER", ":20100", ":NUMBER",
	}
}

// inside runs a script in the network namespace of a host, whose links are below /sys/class/net.
func inside(t *testing.T, k *host.Kernel, script string) string {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "sh", "-c", "mount -t sysfs sysfs /sys && "+script)
	var out []byte
	if err := k.Do("", func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	}); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// look returns the rules of a host in their order, and then the settings of the host and of all its links, but for
// identities and clocks.
func look(t *testing.T, k *host.Kernel) []string {
	t.Helper()
	var rules []string
	for _, program := range []string{"iptables", "ip6tables"} {
		for _, table := range []string{"raw", "mangle", "nat", "filter", "security"} {
			for line := range strings.Lines(inside(t, k, program+" -t "+table+" -S")) {
				rules = append(rules, program+" "+table+" "+strings.TrimSpace(line))
			}
		}
	}
	settings := strings.Split(inside(t, k, `{ grep -rs '' /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf \
		/proc/sys/net/ipv6/conf /proc/sys/net/bridge
		for l in /sys/class/net/*; do grep -s '' $l/bridge/* $l/brport/* $l/mtu $l/flags $l/tx_queue_len; done
		} | grep -vE '_timer:|/(bridge_id|root_id|designated_bridge|designated_root):'`), "\n")
	slices.Sort(settings)
	return append(rules, settings...)
}

// split separates the lines with some of these names or addresses, which are replaced there, from the others.
func split(lines, names []string) (with, without []string) {
	r := strings.NewReplacer(names...)
	for _, line := range lines {
		if now := r.Replace(line); now != line {
			with = append(with, now)
		} else {
			without = append(without, line)
		}
	}
	return with, without
}
