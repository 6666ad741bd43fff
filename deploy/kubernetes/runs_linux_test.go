package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
)

// A plugin that changes the source address of what pods send to other nodes keeps answers from them: that is what the
// proof says, and such a stack is not measured. By their own node they are answered. The records have what Calico's
// settings say.
func (u *user) masked(t *testing.T) {
	for name, pods := range map[string]string{"pods4": "10.244.0.0/16", "pods6": "fd00:10:244::/48"} {
		if err := u.cluster.Apply(t.Context(), fmt.Sprintf(`{"apiVersion": "crd.projectcalico.org/v1", "kind": "IPPool",
			"metadata": {"name": %q}, "spec": {"cidr": %q, "ipipMode": "Never", "natOutgoing": true}}`, name, pods)); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.cluster.Apply(t.Context(), `{"apiVersion": "crd.projectcalico.org/v1", "kind": "FelixConfiguration",
		"metadata": {"name": "default"}, "spec": {}}`); err != nil {
		t.Fatal(err)
	}
	for _, n := range u.cluster.Nodes() { // Felix masks what comes from addresses in these sets
		for set, pods := range map[string]string{
			"cali40masq-ipam-pools": "10.244.0.0/16", "cali60masq-ipam-pools": "fd00:10:244::/48",
		} {
			gone(t, 30*time.Second, func() []string {
				if has, _ := n.Run(t.Context(), "ipset", "list", set); strings.Contains(has, pods) {
					return nil
				}
				return []string{n.Name() + " without " + pods + " in " + set}
			})
		}
	}
	dir := filepath.Join(u.dir, "masked")
	cmd, out, said := u.command(t.Context(), "run", u.write(t, "masked.yaml", "hosts: {kind: kubernetes, nodes: 2}\n"+
		"baseline: cni\nfactors: {network: [{cni: {via: nodeport, node: [sink, source]}}], placement: cross-host, "+
		"family: [ipv4, ipv6]}\nworkloads: udp-rr\n"), "--time", "1s", "-o", dir)
	_ = cmd.Run() // its status says it
	if cmd.ProcessState.ExitCode() != 4 {
		t.Fatalf("status %d, want 4\n%s\n%s", cmd.ProcessState.ExitCode(), out, said)
	}
	run, log := records(t, dir)
	for _, p := range log.Proofs {
		if want := p.Name != proof.Passes || viaOf(p.Lab) != "nodeport"; p.OK != want {
			t.Errorf("%s: %s: %v (%s), want %v", p.Lab, p.Claim, p.OK, p.Detail, want)
		}
	}
	good := map[string]int{}
	for _, trial := range log.Trials {
		if trial.Failed == "" {
			good[viaOf(trial.Cell)]++
		}
	}
	if good["nodeport"] > 0 || good["nodeport,node=source"] == 0 {
		t.Errorf("trials that count, by path: %v", good)
	}
	if run.Facts["pod_tunnel"] != "none (calico)" || run.Facts["pod_encryption"] != "off (calico)" {
		t.Errorf("tunnel %v, encryption %v, want none and off", run.Facts["pod_tunnel"], run.Facts["pod_encryption"])
	}
}

// The example measures to its end, proves that packets pass, records the nodes, and leaves nothing.
func (u *user) example(t *testing.T) {
	x, err := experiment.FindExample("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(u.dir, "example")
	cmd, out, said := u.command(t.Context(), "run", u.write(t, "example.yaml", string(x.Text)), "--time", "8s", "-o", dir)
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	run, log := records(t, dir)
	if len(log.Trials) > 0 {
		t.Logf("%.1f s, the first trial after %.1f s:\n%s", time.Since(began).Seconds(),
			run.Started.Sub(began).Seconds()+log.Trials[0].Start, out)
	}
	if run.Facts["node"] != "n1" && run.Facts["node"] != "n2" || len(run.Machines) != 1 || run.Facts["kubernetes"] == nil {
		t.Errorf("facts %v, and of %d other machines; want two nodes and a version", run.Facts, len(run.Machines))
	}
	good := map[string]int{}
	for _, trial := range log.Trials {
		if trial.Failed == "" {
			good[trial.Cell]++
		}
		if trial.Failed == "" && trial.Metrics["clock_skew"] == 0 {
			t.Errorf("%s: no clock skew", trial.Cell)
		}
	}
	for _, c := range run.Cells {
		if good[c.ID] == 0 {
			t.Errorf("%s: no trial counts", c.ID)
		}
	}
	if len(run.Cells) != 12 {
		t.Errorf("%d cells, want 12", len(run.Cells))
	}
	open(t, log)
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// Other tools drive traffic in pods whose image has them. What it lacks is named before anything is built, with what
// helps.
func (u *user) drivers(t *testing.T) {
	congestion, err := sysctl.Read("net.ipv4.tcp_congestion_control") // pods cannot change it, nor iperf3 leave bbr
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(u.dir, "drivers")
	cmd, out, said := u.command(t.Context(), "run", u.write(t, "drivers.yaml", "hosts: {kind: kubernetes, nodes: 2}\n"+
		"baseline: cni\nfactors: {network: host, placement: same-host}\nworkloads: [{tcp-stream: {driver: iperf3}}, {udp-rr: "+
		"{driver: sockperf}}]\n"), "--congestion-control", congestion, "--time", "8s", "-o", dir)
	// One workload is left out, so the run ends with status 3.
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	run, log := records(t, dir)
	good := map[string]int{}
	for _, trial := range log.Trials {
		if trial.Failed != "" {
			t.Errorf("%s: %s", trial.Cell, trial.Failed)
		}
		if trial.Metrics["goodput"] > 0 {
			good[trial.Cell]++
		}
	}
	for _, c := range run.Cells {
		if good[c.ID] == 0 {
			t.Errorf("%s: no trial has a goodput", c.ID)
		}
	}
	if len(run.Cells) != 3 { // of two stacks and a twin
		t.Errorf("%d cells, want 3", len(run.Cells))
	}
	const lacks = `use driver sockperf: not supported here: missing program "sockperf" in image ` + experiment.DefaultImage +
		" (hint: nettoll image --with sockperf makes one that has it)"
	if !strings.Contains(said.String(), lacks) {
		t.Errorf("%s\nwant %q", said, lacks)
	}
	t.Logf("%s", out)
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// counted returns how many packets a device of each node has received and sent.
func (u *user) counted(t *testing.T, device string) map[string][2]int64 {
	t.Helper()
	all := map[string][2]int64{}
	for _, n := range u.cluster.Nodes() {
		text, err := n.Run(t.Context(), "ip", "-j", "-s", "link", "show", device)
		if err != nil {
			t.Fatal(err)
		}
		var links []struct {
			Stats struct {
				RX struct{ Packets int64 }
				TX struct{ Packets int64 }
			} `json:"stats64"`
		}
		if err := json.Unmarshal([]byte(text), &links); err != nil || len(links) != 1 {
			t.Fatalf("%v in %s", err, text)
		}
		all[n.Name()] = [2]int64{links[0].Stats.RX.Packets, links[0].Stats.TX.Packets}
	}
	return all
}

// A monitor reads what nodes count, as the nodes themselves do, and which devices packets pass: across nodes the uplinks,
// where what pods send can be read, and on one node not; those that lead to pods always, unless pods share the network of
// their node.
func (u *user) monitor(t *testing.T) {
	dir := filepath.Join(u.dir, "monitor")
	before := u.counted(t, uplink)
	cmd, out, said := u.command(t.Context(), "run", u.write(t, "monitor.yaml",
		"hosts: {kind: kubernetes, nodes: 2, monitor: wire}\nfactors: {network: [host, cni]}\nworkloads: udp-rr\n"),
		"--time", "4s", "-o", dir)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	after := u.counted(t, uplink)
	t.Logf("%s", out)
	run, log := records(t, dir)
	for _, b := range log.Blocks {
		if b.Memory <= 0 || b.Softirqs <= 0 || len(b.Machines) != 1 || b.Machines[0].Memory <= 0 ||
			b.Machines[0].Softirqs <= 0 {
			t.Errorf("block %d: memory and softirqs of nodes: %+v", b.Block, b)
		}
	}
	for _, trial := range log.Trials {
		all, known := trial.Metrics[traffic.CPUNodes]
		if trial.Failed == "" && (!known || all <= 0 || all < trial.Metrics[traffic.CPUNodesSoftirq] ||
			trial.Metrics[traffic.SoftirqRate] <= 0) {
			t.Errorf("%s: CPU and softirqs of nodes: %v", trial.Cell, trial.Metrics)
		}
	}
	for _, l := range measure.HeardIn(log.Labs) { // nothing is encrypted, so what pods send can be read
		marked := map[string]int{}
		for _, f := range l.Frames {
			if f.Device == uplink {
				marked[f.Machine] += f.Marked
			}
		}
		if !strings.Contains(l.Lab, "cross-host") || marked["n1"] == 0 || marked["n2"] == 0 {
			t.Errorf("%s: marked frames at the uplinks: %v, want some across nodes", l.Lab, marked)
		}
	}
	if n := len(measure.HeardIn(log.Labs)); n != 3 {
		t.Errorf("nodes have listened for %d labs, want 3", n)
	}
	passed := map[string][2]int64{} // by node: what the uplink has counted in all trials
	labs := measure.PassedIn(log.Labs)
	for _, l := range labs {
		across, shares := strings.Contains(l.Lab, "cross-host"), strings.HasPrefix(l.Lab, "host")
		if want := map[bool]int{true: 2, false: 1}[across]; len(l.Hosts) != want {
			t.Errorf("%s: devices of %d nodes, want %d", l.Lab, len(l.Hosts), want)
		}
		for _, h := range l.Hosts {
			pods, up := 0, false
			for _, d := range h.Devices {
				if d.Container != "" && h.Carries(d) {
					pods++
				}
				if d.Name == uplink {
					up = h.Carries(d)
					sum := passed[h.Machine]
					passed[h.Machine] = [2]int64{sum[0] + d.Received, sum[1] + d.Sent}
				}
			}
			want := map[bool]int{true: 1, false: 2}[across]
			if shares {
				want = 0
			}
			if pods != want || up != across || h.Trials == 0 || h.Left == 0 {
				t.Errorf("%s on %s: the devices of %d pods carry, the uplink does: %v; want %d and %v: %+v", l.Lab, h.Machine, pods,
					up, want, across, h)
			}
		}
	}
	if len(labs) != 6 { // host, cni and the twin, on one node and across nodes
		t.Errorf("devices of %d labs, want 6", len(labs))
	}
	for node, sum := range passed {
		for i, way := range []string{"received", "sent"} {
			if moved := after[node][i] - before[node][i]; sum[i] == 0 || sum[i] > moved {
				t.Errorf("%s of %s has %s %d packets in trials, and %d in all as the node counts", uplink, node, way, sum[i], moved)
			}
		}
	}
	if len(passed) != 2 || run.Facts["monitor"] == nil || !strings.Contains(out.String(), uplink) {
		t.Errorf("uplinks of %d nodes, monitor %v, report:\n%s", len(passed), run.Facts["monitor"], out)
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// A namespace that forbids what a monitor needs ends the run before anything is measured, with what helps.
func (u *user) unmonitored(t *testing.T) {
	u.kubectl(t, "create", "namespace", "unmonitored")
	u.kubectl(t, "label", "namespace", "unmonitored", "pod-security.kubernetes.io/enforce=restricted")
	dir := filepath.Join(u.dir, "unmonitored")
	cmd, out, said := u.command(t.Context(), "run", u.write(t, "unmonitored.yaml",
		"hosts: {kind: kubernetes, nodes: 2, namespace: unmonitored, monitor: nodes}\nbaseline: cni\n"+
			"factors: {network: [{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n"), "--time", "2s", "-o", dir)
	_ = cmd.Run() // its status says it
	text := strings.Join(strings.Fields(said.String()), " ")
	for _, want := range []string{"monitor: nodes", "violates PodSecurity", "leave out monitor: nodes"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q: %s", want, text)
		}
	}
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("status %d, want 1\n%s", cmd.ProcessState.ExitCode(), out)
	}
	if _, err := os.Stat(filepath.Join(dir, control.RecordsFile)); err == nil {
		t.Error("it has records: something was measured")
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// Two clusters are measured in the same blocks, each stack on its own. Here both contexts are of one cluster, and only
// the namespaces show where pods are.
func (u *user) several(t *testing.T) {
	config := filepath.Join(u.dir, "several.config")
	text, err := os.ReadFile(u.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(args ...string) string {
		t.Helper()
		out, err := u.cluster.Kubectl(t.Context(), append([]string{"--kubeconfig", config, "config"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	cluster := set("view", "-o", "jsonpath={.contexts[0].context.cluster}")
	user := set("view", "-o", "jsonpath={.contexts[0].context.user}")
	for _, context := range []string{"one", "an/other"} {
		set("set-context", context, "--cluster", cluster, "--user", user)
	}
	u.kubectl(t, "create", "namespace", "first")
	u.kubectl(t, "create", "namespace", "second")
	file := u.write(t, "several.yaml", "hosts:\n"+
		"- {kind: kubernetes, nodes: 2, context: one, namespace: first}\n"+
		"- {kind: kubernetes, nodes: 2, context: an/other, namespace: second}\n"+
		"baseline: cni\nfactors: {network: cni, placement: cross-host}\nworkloads: [udp-rr, tcp-stream]\n")
	dir := filepath.Join(u.dir, "several")
	cmd, out, said := u.command(t.Context(), "run", file, "--time", "4s", "-o", dir)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+config)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	run, log := records(t, dir)
	t.Logf("%s", out)
	stacks, good := map[string]bool{}, map[string]int{}
	for _, trial := range log.Trials {
		if trial.Failed == "" {
			good[trial.Cell]++
		}
	}
	for _, c := range run.Cells {
		stacks[c.Stack] = true
		if good[c.ID] == 0 {
			t.Errorf("%s: no trial counts", c.ID)
		}
	}
	if want := map[string]bool{"cni@pod(cluster=one)": true, "cni@pod(cluster=cluster2)": true}; !maps.Equal(stacks, want) {
		t.Errorf("stacks %v, want %v", stacks, want)
	}
	var machines []string
	for _, m := range run.Machines {
		machines = append(machines, m.Machine)
	}
	if want := []string{"one/n2", "cluster2/n1", "cluster2/n2"}; !slices.Equal(machines, want) {
		t.Errorf("machines %v, want %v, and one/n1 before them", machines, want)
	}
	for _, namespace := range []string{"first", "second"} {
		made := u.kubectl(t, "get", "events", "--namespace", namespace, "--field-selector", "reason=SuccessfulCreate", "-o",
			"jsonpath={.items[*].involvedObject.name}")
		if !slices.ContainsFunc(made, func(job string) bool { return !strings.HasSuffix(job, "-scouts") }) {
			t.Errorf("Jobs that were in namespace %s: %v, want some of labs", namespace, made)
		}
		if left := u.kubectl(t, "get", "jobs,pods", "--namespace", namespace, "-o", "name"); len(left) > 0 {
			t.Errorf("left in namespace %s: %v", namespace, left)
		}
	}
}

// measures says whether pods of a lab run, besides the scouts.
func (u *user) measures(t *testing.T) bool {
	t.Helper()
	pods := u.kubectl(t, "get", "pods", "--all-namespaces", "--selector", "app.kubernetes.io/managed-by=nettoll",
		"--field-selector", "status.phase=Running", "-o", "name")
	return slices.ContainsFunc(pods, func(p string) bool { return !strings.Contains(p, "-scouts-") })
}

// The network plugin of this cluster does not know policies. So the claim of the filter does not hold, which is what the
// run says, and ends with; and the stack is not measured.
func (u *user) policy(t *testing.T) {
	file := u.write(t, "policy.yaml", "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\nfactors: {network: cni, "+
		"filter: [none, {networkpolicy: {rules: 3}}], placement: cross-host}\nworkloads: udp-rr\n")
	dir := filepath.Join(u.dir, "policy")
	cmd, out, said := u.command(t.Context(), "run", file, "--time", "2s", "-o", dir)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 4 ||
		!strings.Contains(strings.Join(strings.Fields(out.String()), " "), "the filter allows packets that it must refuse") {
		t.Errorf("%v, want exit status 4 and what the filter allows\n%s\n%s", err, out, said)
	}
	run, log := records(t, dir)
	for _, trial := range log.Trials {
		if strings.Contains(trial.Cell, "networkpolicy") {
			t.Errorf("%s was measured", trial.Cell)
			break
		}
	}
	if leaked(log) == 0 {
		t.Error("who reaches whom shows no leak")
	}
	if len(run.Cells) != 3 || len(log.Trials) == 0 {
		t.Errorf("%d cells and %d trials, want 3 and some", len(run.Cells), len(log.Trials))
	}
	gone(t, 30*time.Second, func() []string {
		return append(u.left(t), u.kubectl(t, "get", "networkpolicies", "--all-namespaces", "-o", "name")...)
	})
}

// viaOf returns how sources reach their sinks in a lab or cell, by its name; "" if it is by their pods.
func viaOf(name string) string {
	_, after, _ := strings.Cut(name, "via=")
	via, _, _ := strings.Cut(after, ")")
	return via
}

// Sources reach their sinks by the addresses of services and by ports of either node, in both families, on one node and
// across nodes; and so do echo requests between pods, which are not root. Ports of nodes that others have are left
// alone.
func (u *user) services(t *testing.T) {
	u.kubectl(t, "create", "namespace", "others")
	var taken []string // so many that a block of free ones is rarely found at once
	for port := 30010; port < 32767; port += 45 {
		taken = append(taken, fmt.Sprintf(`{"name": "p%d", "port": %d, "nodePort": %d}`, port, port, port))
	}
	if err := u.cluster.Apply(t.Context(), `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other",
		"namespace": "others"}, "spec": {"type": "NodePort", "selector": {"no": "such"}, "ports": [`+
		strings.Join(taken, ",")+`]}}`); err != nil {
		t.Fatal(err)
	}
	file := u.write(t, "services.yaml", "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\n"+
		"factors: {network: [{cni: {via: [clusterip, nodeport]}}, {cni: {via: nodeport, node: source}}], "+
		"family: [ipv4, ipv6]}\nworkloads: [udp-rr, ping]\n")
	dir := filepath.Join(u.dir, "services")
	cmd, out, said := u.command(t.Context(), "run", file, "--time", "4s", "-o", dir)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	run, log := records(t, dir)
	good := map[string]int{}
	for _, trial := range log.Trials {
		if trial.Failed == "" {
			good[trial.Cell]++
		}
	}
	by := map[string]int{}
	for _, c := range run.Cells {
		by[viaOf(c.ID)]++
		if good[c.ID] == 0 {
			t.Errorf("%s: no trial counts", c.ID)
		}
	}
	if diff := cmp.Diff(map[string]int{
		"": 16, "clusterip": 4, "nodeport": 4, "nodeport,node=source": 2, // that means something across nodes only
	}, by); diff != "" {
		t.Errorf("cells by how sinks are reached; ping has no ports, and cannot reach a service (-want +got):\n%s", diff)
	}
	for _, p := range log.Proofs {
		if !p.OK {
			t.Errorf("%s: %s: %s", p.Lab, p.Claim, p.Detail)
		}
	}
	gone(t, 30*time.Second, func() []string {
		return append(u.left(t), u.kubectl(t, "get", "services", "--all-namespaces", "--selector",
			"app.kubernetes.io/managed-by=nettoll", "-o", "name")...)
	})
	if kept := u.kubectl(t, "get", "services", "--namespace", "others", "-o", "name"); len(kept) != 1 {
		t.Errorf("services of others: %v, want the one", kept)
	}
}
