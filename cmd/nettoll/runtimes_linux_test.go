package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/testcni"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime/dockertest"
	"github.com/nettoll/nettoll/stack"
)

// network is a network and the placement that it is tried with.
type network struct{ name, placement string }

// ownNetworks are those that a runtime builds itself.
var ownNetworks = map[string][]network{
	"docker": {
		{"bridge(by=docker)", "same-host"},
		{"nat(by=docker)", "cross-host"},
		{"macvlan(by=docker)", "same-host"},
		{"macvlan(by=docker,mode=vepa)", "same-host"},
		{"macvlan(by=docker,mode=passthru)", "cross-host"},
		{"macvlan(by=docker,mode=private)", "cross-host"},
		{"ipvlan(by=docker)", "same-host"},
		{"ipvlan(by=docker,mode=l3)", "cross-host"},
		{"overlay(by=docker)", "cross-host"},
	},
	"lxc": {
		{"bridge(by=lxc)", "cross-host"},
		{"nat(by=lxc)", "cross-host"},
		{"macvlan(by=lxc)", "same-host"},
		{"macvlan(by=lxc,mode=vepa)", "same-host"},
		{"macvlan(by=lxc,mode=passthru)", "same-host"},
		{"macvlan(by=lxc,mode=private)", "cross-host"},
		{"ipvlan(by=lxc)", "same-host"},
		{"ipvlan(by=lxc,mode=l3)", "cross-host"},
		{"passthrough(by=lxc)", "cross-host"},
	},
	"podman": {
		{"bridge(by=podman)", "same-host"},
		{"nat(by=podman)", "cross-host"},
		{"macvlan(by=podman)", "same-host"},
		{"macvlan(by=podman,mode=vepa)", "same-host"},
		{"macvlan(by=podman,mode=passthru)", "same-host"},
		{"macvlan(by=podman,mode=private)", "cross-host"},
	},
}

// everyNetwork are those of nettoll itself, and those of CNI plugins.
func everyNetwork() []network {
	all := []network{
		{"host", "cross-host"},
		{"bridge", "cross-host"},
		{"routed", "same-host"},
		{"nat", "cross-host"},
		{"macvlan", "same-host"},
		{"ipvlan", "same-host"},
		{"passthrough", "cross-host"},
		{"overlay", "cross-host"},
		{"ovs", "same-host"},
		{"ebpf", "same-host"},
		{"cni(plugin=ptp)", "same-host"},
		{"cni", "cross-host"},
		{"cni(plugin=macvlan)", "same-host"},
		{"cni(plugin=host-device)", "cross-host"},
		{"cni(plugin=ipvlan)", "same-host"},
		{"cni(plugin=vlan)", "cross-host"},
		{"cni(plugin=tap)", "same-host"},
	}
	if testnet.IsSlow() { // network/cni has them with network namespaces
		all = append(all, network{"cni(plugin=ptp,chain=portmap+firewall+bandwidth+tuning)", "cross-host"},
			network{"cni(plugin=flannel)", "cross-host"})
	}
	return all
}

// withPrograms returns a stack with the paths of CNI plugins that Debian lacks, which it builds.
func withPrograms(t *testing.T, kinds stack.Kinds, name string) (string, stack.Stack) {
	t.Helper()
	for _, plugin := range []string{"tap", "flannel"} {
		before, after, is := strings.Cut(name, "plugin="+plugin)
		if !is {
			continue
		}
		// a folder of a test has its name, and parentheses
		name = before + "plugin=" + plugin + fmt.Sprintf(",bin=%q", testcni.Plugins(t, plugin)+":/opt/cni/bin:/usr/lib/cni")
		if plugin == "flannel" {
			name += ",daemon=" + testcni.Flanneld(t)
		}
		name += after
	}
	s, err := kinds.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, s
}

// TestNetworksOfRuntimes builds labs of every network with containers of every runtime: the kernel has what was planned,
// every pair passes packets of full size, and they take the path that the network names. So do networks that a runtime
// builds itself.
//
//   - CI has all networks with runc, and with Docker and LXC, the runtimes of the papers, but for what make test-slow has.
//     For each of the other runtimes it has another network each hour.
//   - make test-slow has all networks with all runtimes, the plugin flannel and a chain of plugins among them.
//   - make test-guest has ipvlan with runc and LXC, whose links this kernel may lack; make test-guest-rare has ipvlan
//     with Docker, and the plugins ipvlan and vlan with runc and LXC.
//
// Each network stands in one placement here, and in the other one in TestOtherPlacements.
func TestNetworksOfRuntimes(t *testing.T) {
	testnet.Root(t)
	kinds, hour := catalogue.New().Kinds, testnet.Hour()
	for i, runtime := range []string{"oci", "oci(command=crun)", "lxc", "docker", "podman", "containerd", "docker(use=machine)"} {
		networks := slices.Concat(everyNetwork(), ownNetworks[runtime])
		whole := testnet.IsSlow() || slices.Contains([]string{"oci", "lxc", "docker"}, runtime)
		for j, n := range networks {
			if !whole && j != (hour+i)%len(networks) {
				continue
			}
			if runtime == "docker(use=machine)" && n.name == "host" { // docs/parts.md has no mark for it
				s, err := kinds.Parse(n.name + "@" + runtime)
				if err != nil {
					t.Fatal(err)
				}
				if s.Refuse(2) == "" {
					t.Error("a lab of two hosts in the network of the machine is not refused")
				}
				continue
			}
			t.Run(n.name+"@"+runtime, func(t *testing.T) {
				if runtime != "docker(use=machine)" { // which has the environment changed
					t.Parallel()
				}
				name, s := withPrograms(t, kinds, n.name+"@"+runtime)
				testnet.Skip(t, s.Check())
				if runtime == "docker(use=machine)" {
					theirs := dockertest.Start(t)
					t.Setenv("DOCKER_HOST", theirs.Host)
					t.Cleanup(theirs.Inhabit())
				}
				stands(t, name, n.placement)
			})
		}
	}
}

// TestOtherPlacements builds these labs in the other placement, with runc, LXC and Docker, if that means something. CI
// has one of them, another one each hour; make test-slow has all.
func TestOtherPlacements(t *testing.T) {
	testnet.Root(t)
	kinds := catalogue.New().Kinds
	var labs []network
	for _, runtime := range []string{"oci", "lxc", "docker"} {
		for _, n := range slices.Concat(everyNetwork(), ownNetworks[runtime]) {
			name, placement, hosts := n.name+"@"+runtime, "cross-host", 2
			if n.placement == placement {
				placement, hosts = "same-host", 1
			}
			s, err := kinds.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			if s.Refuse(hosts) == "" {
				labs = append(labs, network{name, placement})
			}
		}
	}
	for i, l := range labs {
		if !testnet.IsSlow() && i != testnet.Hour()%len(labs) {
			continue
		}
		t.Run(l.name+"/"+l.placement, func(t *testing.T) {
			name, s := withPrograms(t, kinds, l.name)
			testnet.Skip(t, s.Check())
			stands(t, name, l.placement)
		})
	}
}

// stands builds a lab and removes it: it is as planned, and every pair passes packets of full size.
func stands(t *testing.T, name, placement string) {
	t.Helper()
	said := nettoll(t, "lab", "up", "--stack", name, "--placement", placement, "--time", "5m")
	if said.status != 0 {
		t.Fatalf("lab up exits with %d: %s", said.status, said.stderr)
	}
	lab, _, _ := strings.Cut(strings.TrimPrefix(said.stdout, "lab "), ": ")
	full := 1500
	if strings.HasPrefix(name, "overlay") && placement == "cross-host" || strings.Contains(name, "plugin=flannel") {
		full -= 50 // VXLAN
	}
	contains(t, "lab up", said.stdout,
		fmt.Sprintf("every pair passes packets of %d bytes both ways, unfragmented", full), "h1, verified")
	if strings.Contains(said.stdout, "DRIFTED") {
		t.Errorf("the kernel is not as planned:\n%s", said.stdout)
	}
	if down := nettoll(t, "lab", "down", lab); down.status != 0 {
		t.Errorf("lab down exits with %d: %s", down.status, down.stderr)
	}
}

// TestAttackNetworksOfRuntimes attacks networks that a runtime builds itself, alone and with the filters that they have,
// as root in its containers would. Every claim holds. Each hour, CI has another one.
func TestAttackNetworksOfRuntimes(t *testing.T) {
	testnet.Root(t)
	all := map[string][]network{
		"docker": {{"macvlan(by=docker)+nftables", "cross-host"}},
		"lxc": {
			{"bridge(by=lxc)+nftables(antispoof=true)", "same-host"},
			{"bridge(by=lxc)+nftables(stateful=true)", "cross-host"},
			{"passthrough(by=lxc)+iptables", "cross-host"},
		},
		"podman": {{"macvlan(by=podman)+nftables", "cross-host"}},
	}
	kinds, number, hours := catalogue.New().Kinds, 0, testnet.Hour()
	for _, runtime := range slices.Sorted(maps.Keys(all)) {
		all[runtime] = slices.Concat(ownNetworks[runtime], all[runtime])
		number += len(all[runtime])
	}
	i := 0
	for _, runtime := range slices.Sorted(maps.Keys(all)) {
		for _, n := range all[runtime] {
			if i++; !testnet.IsSlow() && i-1 != hours%number {
				continue
			}
			name := n.name + "@" + runtime
			t.Run(name, func(t *testing.T) {
				s, err := kinds.Parse(name)
				if err != nil {
					t.Fatal(err)
				}
				testnet.Skip(t, s.Check())
				pairs := "2"
				if n.name == "macvlan(by=docker,mode=passthru)" {
					pairs = "1" // of more, their lower links would need several networks of the same addresses
				}
				said := nettoll(t, "prove", "--stack", name, "--placement", n.placement, "--pairs", pairs)
				if said.status != 0 {
					t.Errorf("prove exits with %d: %s", said.status, said.stderr)
				}
				for _, no := range []string{"claimed and broken", "cannot be told"} {
					if strings.Contains(said.stdout, no) {
						t.Errorf("%s:\n%s", no, said.stdout)
					}
				}
				contains(t, "prove", said.stdout, "root in containers: ", "claimed and held")
			})
		}
	}
}
