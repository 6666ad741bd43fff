package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
)

// A tunnelled network is one whose packets between nodes pass a tunnel.
type tunnelled struct {
	plugin string // as facts name it, with its version
	facts  map[string]any
	device string // of the tunnel, on nodes
	port   int    // UDP
}

// Between nodes that flannel joins, what pods send passes VXLAN, and facts say so.
func TestFlannel(t *testing.T) {
	testnet.KubeFull(t, "it needs a network plugin that is built for minutes")
	u := newUser(t, testkube.Options{Network: testkube.Flannel, Proxy: true})
	t.Run("across", func(t *testing.T) {
		u.across(t, tunnelled{
			plugin: "flannel:v0.28.4", device: "flannel.1", port: 8472, // the port of the kernel's VXLAN (vxlan_core.c)
			facts: map[string]any{
				"pod_tunnel": "vxlan (flannel)", "pod_encryption": "off (flannel)", "pod_mtu": 1450.0,
				"service_proxy": "kube-proxy: iptables",
			},
		})
	})
	t.Run("unenforced", func(t *testing.T) { u.unenforced(t) })
}

// Cilium enforces policies by eBPF. Between nodes, what pods send passes VXLAN, and facts say so.
func TestCilium(t *testing.T) {
	testnet.KubeFull(t, "it needs a network plugin that is built for minutes")
	u := newUser(t, testkube.Options{Network: testkube.Cilium, Proxy: true})
	t.Run("across", func(t *testing.T) {
		u.across(t, tunnelled{
			plugin: "cilium:v1.20.2", device: "cilium_vxlan", port: 8472, // Cilium's default (pkg/defaults)
			facts: map[string]any{
				"pod_tunnel": "vxlan (cilium)", "pod_encryption": "off (cilium)", "service_proxy": "kube-proxy: iptables",
			},
		})
	})
	u.policies(t, "pod", "clusterip")
	t.Run("whole cluster", func(t *testing.T) {
		u.clusterPolicies(t, policyKind{
			kind: "ClusterNetworkPolicy", version: "v1alpha2", resource: "clusternetworkpolicies", accept: "Accept", tier: "Admin",
		}, "pod", "clusterip")
	})
}

// Two clusters with different network plugins are measured in the same blocks. What pods of the second one send passes
// its tunnel, and what those of the first one send does not. nettoll compare compares a run on each of them.
func TestTwoNetworks(t *testing.T) {
	testnet.KubeFull(t, "it needs a network plugin that is built for minutes")
	plain, tunnel := newUser(t, testkube.Options{}), newUser(t, testkube.Options{Network: testkube.Flannel})
	plain.join(t, map[string]*user{"plain": plain, "vxlan": tunnel})
	const device = "flannel.1"
	measured := func(name, hosts, rest string) (measure.Run, *measure.Log, string) {
		t.Helper()
		dir := filepath.Join(plain.dir, name)
		cmd, out, said := plain.command(t.Context(), "run", plain.write(t, name+".yaml", "hosts: "+hosts+"\n"+rest+
			"\nworkloads: udp-rr\n"), "--time", "4s",
			"-o", dir)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", name, err, out, said)
		}
		t.Logf("%s", out)
		run, log := records(t, dir)
		return run, log, dir
	}
	const first, second = "{kind: kubernetes, nodes: 2, context: plain}", "{kind: kubernetes, nodes: 2, context: vxlan}"
	before := tunnel.counted(t, device)
	run, log, _ := measured("both", "["+first+", "+second+"]", "baseline: cni\nfactors: {network: cni, placement: cross-host}")
	after := tunnel.counted(t, device)
	open(t, log)
	trials, blocks := map[string]int{}, map[int]map[string]bool{}
	answers := map[bool]int64{} // by whether the cluster is the second one
	for _, x := range log.Trials {
		if x.Failed == "" {
			trials[x.Cell]++
		}
		if blocks[x.Block] == nil {
			blocks[x.Block] = map[string]bool{}
		}
		blocks[x.Block][x.Cell] = true
	}
	for _, h := range log.Histograms { // of latencies, one for each round trip
		answers[strings.Contains(h.Cell, "cluster=vxlan")] += h.Samples
	}
	for _, c := range run.Cells {
		if trials[c.ID] == 0 {
			t.Errorf("%s: no trial counts", c.ID)
		}
	}
	for number, cells := range blocks {
		if len(cells) != len(run.Cells) {
			t.Errorf("block %d has trials of %d cells, want %d", number, len(cells), len(run.Cells))
		}
	}
	for node := range after {
		moved, own, others := after[node][1]-before[node][1], answers[true], answers[false]
		if moved < own || moved >= own+others || own == 0 || others == 0 {
			t.Errorf("%s of %s has sent %d packets; %d round trips were counted on its cluster, and %d on the other one", device,
				node, moved, own, others)
		}
	}
	const beside = "factors: {network: [host, cni], placement: cross-host}"
	_, _, a := measured("one", first, beside)
	_, _, b := measured("other", second, beside)
	cmd, out, said := plain.command(t.Context(), "compare", a, b)
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "latency p50") {
		t.Errorf("compare: %v\n%s\n%s", err, out, said)
	}
	t.Logf("%s", out)
}

// join writes a kubeconfig with a context for each cluster, and has the user use it.
func (u *user) join(t *testing.T, all map[string]*user) {
	t.Helper()
	var contexts, clusters, users []map[string]any
	for name, of := range all {
		text, err := u.cluster.Kubectl(t.Context(), "--kubeconfig", of.config, "config", "view", "--raw", "--flatten", "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		var has struct{ Clusters, Users []map[string]any }
		if err := json.Unmarshal([]byte(text), &has); err != nil {
			t.Fatal(err)
		}
		if len(has.Clusters) != 1 || len(has.Users) != 1 {
			t.Fatalf("%d clusters and %d users in the kubeconfig of %s, want one of each", len(has.Clusters), len(has.Users), name)
		}
		has.Clusters[0]["name"], has.Users[0]["name"] = name, name
		clusters, users = append(clusters, has.Clusters[0]), append(users, has.Users[0])
		contexts = append(contexts, map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}})
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "clusters": clusters, "users": users, "contexts": contexts,
	})
	if err != nil {
		t.Fatal(err)
	}
	u.env = append(u.env, "KUBECONFIG="+u.write(t, "joined.config", string(text)))
}

// across measures between nodes, and compares facts, what nodes hear of each other, and what the device of the tunnel
// counts with what is wanted.
func (u *user) across(t *testing.T, want tunnelled) {
	dir := filepath.Join(u.dir, "across")
	before := u.counted(t, want.device)
	cmd, out, said := u.command(t.Context(), "run", u.write(t, "across.yaml",
		"hosts: {kind: kubernetes, nodes: 2, monitor: wire}\nfactors: {network: [host, cni]}\nworkloads: udp-rr\n"),
		"--time", "4s", "-o", dir)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	after := u.counted(t, want.device)
	t.Logf("%s", out)
	run, log := records(t, dir)
	open(t, log)
	if plugins, _ := run.Facts["network_plugins"].([]any); !slices.Contains(plugins, any(want.plugin)) {
		t.Errorf("network plugins %v, want %q among them", run.Facts["network_plugins"], want.plugin)
	}
	for name, value := range want.facts {
		if got := run.Facts[name]; got != value {
			t.Errorf("fact %s is %v, want %v", name, got, value)
		}
	}
	u.tunnelHeard(t, log, want)
	u.tunnelPassed(t, log, want, before, after)
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// tunnelHeard wants nodes to hear what pods send in the tunnel, and what nodes send outside of it.
func (u *user) tunnelHeard(t *testing.T, log *measure.Log, want tunnelled) {
	t.Helper()
	labs := measure.HeardIn(log.Labs)
	for _, l := range labs {
		marked := map[string]int{} // by node, and whether it is the tunnel
		for _, f := range l.Frames {
			if f.Device == uplink && f.Marked > 0 {
				marked[fmt.Sprintf("%s %v", f.Machine, f.Wire == fmt.Sprintf("UDP to port %d", want.port))] += f.Marked
			}
		}
		inside := strings.HasPrefix(l.Lab, "cni")
		for _, node := range []string{"n1", "n2"} {
			if marked[fmt.Sprintf("%s %v", node, inside)] == 0 || marked[fmt.Sprintf("%s %v", node, !inside)] > 0 {
				t.Errorf("%s: marked frames at the uplink of %s: %v; want some, all of them in the tunnel: %v", l.Lab, node, marked,
					inside)
			}
		}
	}
	if len(labs) != 3 { // host, cni and the twin, across nodes
		t.Errorf("nodes have listened for %d labs, want 3", len(labs))
	}
}

// tunnelPassed wants the device of the tunnel to count what pods send to other nodes, no more of it than the node
// itself counts, and nothing else.
func (u *user) tunnelPassed(t *testing.T, log *measure.Log, want tunnelled, before, after map[string][2]int64) {
	t.Helper()
	sums := map[string][2]int64{}
	for _, l := range measure.PassedIn(log.Labs) {
		inside := strings.HasPrefix(l.Lab, "cni") && strings.Contains(l.Lab, "cross-host")
		for _, h := range l.Hosts {
			carries := false
			for _, d := range h.Devices {
				if d.Name != want.device {
					continue
				}
				carries = h.Carries(d)
				if inside {
					sum := sums[h.Machine]
					sums[h.Machine] = [2]int64{sum[0] + d.Received, sum[1] + d.Sent}
				}
			}
			if carries != inside {
				t.Errorf("%s on %s: %s carries its packets: %v, want %v: %+v", l.Lab, h.Machine, want.device, carries, inside, h)
			}
		}
	}
	for node, sum := range sums {
		for i, way := range []string{"received", "sent"} {
			if moved := after[node][i] - before[node][i]; sum[i] == 0 || sum[i] > moved {
				t.Errorf("%s of %s has %s %d packets in trials, and %d in all as the node counts", want.device, node, way, sum[i],
					moved)
			}
		}
		t.Logf("%s of %s: received and sent in trials %v, in all from %v to %v", want.device, node, sum, before[node],
			after[node])
	}
	if len(sums) != 2 {
		t.Errorf("%s counted on %d nodes, want 2", want.device, len(sums))
	}
}
