package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testkube.Main(m) }

// user is somebody with a kubeconfig and nettoll.
type user struct {
	cluster *testkube.Cluster
	nettoll string
	env     []string
	config  string // path of the kubeconfig
	dir     string // of the experiment
	killed  string // the namespace of the run that was killed
}

// newUser starts a cluster whose nodes have the image of nettoll.
func newUser(t *testing.T, o testkube.Options) *user {
	t.Helper()
	testnet.Kube(t)
	workloadtest.Loopback(t)
	u := &user{dir: t.TempDir()}
	u.nettoll = filepath.Join(u.dir, "nettoll")
	if err := testkube.Program(t.Context(), "./cmd/nettoll", u.nettoll); err != nil {
		t.Fatal(err)
	}
	o.Images = []testkube.Image{{Name: experiment.DefaultImage, Files: map[string]string{"/nettoll": u.nettoll}}}
	u.cluster = testkube.New(t, o)
	config, err := u.cluster.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(u.dir, "bin")
	if err := u.cluster.LinkKubectl(bin); err != nil {
		t.Fatal(err)
	}
	u.config = config
	u.env = append(os.Environ(), "KUBECONFIG="+config, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return u
}

// command is a command of nettoll.
func (u *user) command(ctx context.Context, args ...string) (cmd *exec.Cmd, out, said *bytes.Buffer) {
	cmd = exec.CommandContext(ctx, u.nettoll, args...)
	out, said = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = u.env, u.dir, out, said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd, out, said
}

// write writes an experiment.
func (u *user) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(u.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubectl returns the words of an answer of kubectl.
func (u *user) kubectl(t *testing.T, args ...string) []string {
	t.Helper()
	text, err := u.cluster.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(text)
}

// left returns what nettoll has in the cluster, but for the run that was killed: namespaces, Jobs, DaemonSets and pods.
func (u *user) left(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(u.kubectl(t, "get", "namespaces,jobs,daemonsets,pods", "--all-namespaces", "--selector",
		"app.kubernetes.io/managed-by=nettoll", "-o", "name"), func(name string) bool {
		return u.killed != "" && strings.Contains(name, strings.TrimPrefix(u.killed, "nettoll-"))
	})
}

// gone waits until f returns nothing.
func gone(t *testing.T, within time.Duration, f func() []string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		left := f()
		if len(left) == 0 {
			return
		}
		if time.Since(began) > within {
			t.Errorf("after %v there are still %v", within, left)
			return
		}
	}
}

// records reads the records of a run.
func records(t *testing.T, dir string) (measure.Run, *measure.Log) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, control.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	var run measure.Run
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, control.RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, problems, err := measure.Read(f)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return run, log
}

// reaches compares who reaches whom with what is wanted, wherever that was tried, and returns how often it was.
func reaches(t *testing.T, log *measure.Log, want func(lab, from, to string) measure.Reach) (tried int) {
	t.Helper()
	for _, m := range log.Matrices {
		if strings.HasPrefix(m.Lab, "host/") {
			if m.NotTried != proof.ErrShared.Error() {
				t.Errorf("%s: who reaches whom: not tried: %q, want that its pods share the network of their node", m.Lab, m.NotTried)
			}
			continue
		}
		if m.NotTried != "" || m.Untold != "" || len(m.Untried) == 0 {
			t.Errorf("%s: who reaches whom: not tried: %q, untold: %q, in part: %q", m.Lab, m.NotTried, m.Untold, m.Untried)
			continue
		}
		tried++
		for family := range m.Cells {
			for i, from := range m.From {
				for k, to := range m.From {
					if got := m.At(family, i, k); i != k && got != want(m.Lab, from, to) {
						t.Errorf("%s, %s: from %s to %s: %c, want %c; leaks %q, missing %q", m.Lab, family, from, to, got,
							want(m.Lab, from, to), m.Leaks, m.Missing)
					}
				}
			}
		}
	}
	return tried
}

// leaked returns how many packets have leaked that who reaches whom was tried with.
func leaked(log *measure.Log) (packets int) {
	for _, m := range log.Matrices {
		packets += m.LeaksAll
	}
	return packets
}

// A user measures on a cluster of two nodes, with what can go wrong there.
func TestCluster(t *testing.T) {
	u := newUser(t, testkube.Options{Proxy: true}) // services have addresses that work
	// Of the run that was killed: the cluster has the time of all other runs for it.
	var end time.Time
	t.Run("killed", func(t *testing.T) { end = u.kill(t) })
	t.Run("example", func(t *testing.T) { u.example(t) })
	t.Run("own namespace", func(t *testing.T) { u.ownNamespace(t) })
	t.Run("monitor", func(t *testing.T) { u.monitor(t) })
	t.Run("monitor refused", func(t *testing.T) { u.unmonitored(t) })
	t.Run("restricted", func(t *testing.T) { u.restricted(t) })
	t.Run("no image", func(t *testing.T) { u.noImage(t) })
	t.Run("few nodes", func(t *testing.T) { u.fewNodes(t) })
	t.Run("resumed", func(t *testing.T) { u.resumed(t) })
	t.Run("policy", func(t *testing.T) { u.policy(t) })
	t.Run("policy unenforced", func(t *testing.T) { u.unenforced(t) })
	t.Run("rights", func(t *testing.T) { u.rights(t) })
	t.Run("services", func(t *testing.T) { u.services(t) })
	t.Run("several", func(t *testing.T) { u.several(t) })
	t.Run("restarts", func(t *testing.T) { u.restarts(t) })
	t.Run("cleaned", func(t *testing.T) { u.cleaned(t, end) })
}

// A network plugin that enforces policies does so in time, and what they refuse does not pass: in both families, on one
// node and across nodes, and between pairs. A policy of somebody else that allows more is a leak, which is found.
func TestPolicies(t *testing.T) {
	testnet.KubeFull(t, "it needs a network plugin that is built for minutes")
	u := newUser(t, testkube.Options{Network: testkube.Calico, Proxy: true})
	const text = "baseline: cni\nfactors: {network: [{cni: {via: %s}}], filter: {networkpolicy: {rules: 3}}, pairs: 2, " +
		"family: [ipv4, ipv6]}\nworkloads: udp-rr\n"
	t.Run("hold", func(t *testing.T) {
		dir := filepath.Join(u.dir, "hold")
		cmd, out, said := u.command(t.Context(), "run", u.write(t, "hold.yaml", "hosts: {kind: kubernetes, nodes: 2}\n"+
			fmt.Sprintf(text, "[pod, clusterip, nodeport]")), "--time", "2s", "--proof-budget", "50%", "-o", dir) // for all ways
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, said)
		}
		_, log := records(t, dir)
		refused, enforced := map[string]int{}, 0 // by how sinks are reached
		for _, p := range log.Proofs {
			if !p.OK {
				t.Errorf("%s: %s: %s", p.Lab, p.Claim, p.Detail)
			} else if p.Name == proof.Refuses {
				refused[viaOf(p.Lab)]++
			}
		}
		for _, l := range log.Labs {
			if l.Metrics[filter.EnforceTime] > 0 {
				enforced++
			}
		}
		if len(refused) != 3 || enforced == 0 {
			t.Errorf("proofs that something is refused: %v, times until that was so: %d; want some of each path", refused,
				enforced)
		}
		if reaches(t, log, func(lab, from, to string) measure.Reach {
			switch {
			case !strings.Contains(lab, "networkpolicy"):
				return measure.ReachOpen
			case from[:3] == "src" && to == "snk"+from[3:]:
				return measure.ReachAllowed
			}
			return measure.ReachRefused
		}) == 0 {
			t.Error("who reaches whom was not tried")
		}
		t.Logf("%s", out)
	})
	t.Run("times", func(t *testing.T) { u.policyTimes(t) })
	t.Run("too wide", func(t *testing.T) {
		u.kubectl(t, "create", "namespace", "wide")
		if err := u.cluster.Apply(t.Context(), `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
			"metadata": {"name": "wide", "namespace": "wide"}, "spec": {"podSelector": {}, "ingress": [{}], "egress": [{}],
			"policyTypes": ["Ingress", "Egress"]}}`); err != nil {
			t.Fatal(err)
		}
		cmd, out, said := u.command(t.Context(), "run", u.write(t, "wide.yaml",
			"hosts: {kind: kubernetes, nodes: 2, namespace: wide}\n"+fmt.Sprintf(text, "pod")), "--time", "2s", "-o",
			filepath.Join(u.dir, "wide"))
		_ = cmd.Run() // its status says it
		if cmd.ProcessState.ExitCode() != 4 ||
			!strings.Contains(strings.Join(strings.Fields(out.String()), " "), "the filter allows packets that it must refuse") {
			t.Errorf("status %d, want 4 and the leak:\n%s\n%s", cmd.ProcessState.ExitCode(), out, said)
		}
		if _, log := records(t, filepath.Join(u.dir, "wide")); leaked(log) == 0 {
			t.Errorf("who reaches whom shows no leak:\n%s", out)
		}
		if kept := u.kubectl(t, "get", "networkpolicies", "--namespace", "wide", "-o", "name"); len(kept) != 1 {
			t.Errorf("policies of the user's namespace: %v, want the own one", kept)
		}
	})
	t.Run("addresses changed", func(t *testing.T) { u.masked(t) })
}

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
	passed := 0
	for _, p := range log.Proofs {
		if !p.OK {
			t.Errorf("%s: %s: %s", p.Lab, p.Claim, p.Detail)
		} else if p.Name == proof.Passes {
			passed++
		}
	}
	if passed == 0 {
		t.Error("that packets pass was not proved")
	}
	if reaches(t, log, func(string, string, string) measure.Reach { return measure.ReachOpen }) == 0 {
		t.Error("who reaches whom was not tried")
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// uplink is the device of a node to the others.
const uplink = "eth0"

// A monitor reads what nodes count, as the nodes themselves do, and which devices packets pass: across nodes the uplinks,
// where what pods send can be read, and on one node not; those that lead to pods always, unless pods share the network of
// their node.
func (u *user) monitor(t *testing.T) {
	counted := func() map[string][2]int64 { // by node: packets received and sent by the uplink
		all := map[string][2]int64{}
		for _, n := range u.cluster.Nodes() {
			text, err := n.Run(t.Context(), "ip", "-j", "-s", "link", "show", uplink)
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
	dir := filepath.Join(u.dir, "monitor")
	before := counted()
	cmd, out, said := u.command(t.Context(), "run", u.write(t, "monitor.yaml",
		"hosts: {kind: kubernetes, nodes: 2, monitor: wire}\nfactors: {network: [host, cni]}\nworkloads: udp-rr\n"),
		"--time", "4s", "-o", dir)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	after := counted()
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

// A namespace of the user's stays as it was.
func (u *user) ownNamespace(t *testing.T) {
	u.kubectl(t, "create", "namespace", "mine")
	file := u.write(t, "mine.yaml", "hosts: {kind: kubernetes, nodes: 2, namespace: mine}\nfactors: {network: cni, "+
		"placement: cross-host}\nworkloads: udp-rr\n")
	cmd, out, said := u.command(t.Context(), "run", file, "--time", "3s", "-o", filepath.Join(u.dir, "mine"))
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	if left := u.kubectl(t, "get", "jobs,pods", "--namespace", "mine", "-o", "name"); len(left) > 0 {
		t.Errorf("left in the namespace: %v", left)
	}
	if kept := u.kubectl(t, "get", "namespace", "mine", "-o", "name"); len(kept) != 1 {
		t.Errorf("namespace mine: %v", kept)
	}
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

// Without pods that share the network of their node, all meet the standard restricted: the namespace enforces it.
func (u *user) restricted(t *testing.T) {
	file := u.write(t, "restricted.yaml", "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\nfactors: {network: cni, "+
		"placement: same-host, congestion-control: [reno, bbr]}\nworkloads: tcp-rr\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, out, said := u.command(ctx, "run", file, "--time", "1h", "-o", filepath.Join(u.dir, "restricted"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for began := time.Now(); !u.measures(t); time.Sleep(200 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("%v\n%s\n%s", err, out, said)
		default:
		}
		if time.Since(began) > time.Minute {
			t.Fatal("no lab stands after a minute")
		}
	}
	labels := strings.Join(u.kubectl(t, "get", "namespaces", "--selector", "app.kubernetes.io/managed-by=nettoll", "-o",
		"jsonpath={.items[*].metadata.labels}"), " ")
	if !strings.Contains(labels, `"pod-security.kubernetes.io/enforce":"restricted"`) {
		t.Errorf("labels of the namespace: %s", labels)
	}
	cancel() // an interrupt ends the run, which removes what it has made
	if err := <-ended; err == nil {
		t.Error("a run that was interrupted has ended well")
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// measures says whether pods of a lab run, besides the scouts.
func (u *user) measures(t *testing.T) bool {
	t.Helper()
	pods := u.kubectl(t, "get", "pods", "--all-namespaces", "--selector", "app.kubernetes.io/managed-by=nettoll",
		"--field-selector", "status.phase=Running", "-o", "name")
	return slices.ContainsFunc(pods, func(p string) bool { return !strings.Contains(p, "-scouts-") })
}

// An image that the nodes do not have and cannot pull is the error, with what helps, and nothing is left.
func (u *user) noImage(t *testing.T) {
	file := u.write(t, "no-image.yaml", "hosts: {kind: kubernetes, nodes: 2, image: localhost:1/nosuch:v1}\n"+
		"factors: {network: cni}\nworkloads: udp-rr\n")
	cmd, _, said := u.command(t.Context(), "run", file, "-o", filepath.Join(u.dir, "no-image"))
	began := time.Now()
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	for _, want := range []string{"its container does not start", "localhost:1/nosuch:v1", "nettoll image writes it"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%s\nwant %q", said, want)
		}
	}
	t.Logf("%.1f s: %s", time.Since(began).Seconds(), said)
	gone(t, 30*time.Second, func() []string { return u.left(t) })
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

// The namespace of packaging/kubernetes and its rights are enough for a run. What is missing for another one is named.
// With facts.yaml its records say more of the cluster.
func (u *user) rights(t *testing.T) {
	packaged := filepath.Join("..", "..", "packaging", "kubernetes")
	u.kubectl(t, "apply", "-k", packaged)
	token := strings.Join(u.kubectl(t, "create", "token", "measurer", "--namespace", "nettoll"), "")
	config := u.write(t, "measurer.kubeconfig", "")
	admin, err := os.ReadFile(u.config)
	if err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := yaml.Unmarshal(admin, &parsed); err != nil {
		t.Fatal(err)
	}
	users, _ := parsed["users"].([]any)
	for _, one := range users {
		if entry, ok := one.(map[string]any); ok {
			entry["user"] = map[string]any{"token": token}
		}
	}
	changed, err := yaml.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(file string) (dir, said string, err error) {
		dir = filepath.Join(t.TempDir(), "run")
		cmd, out, words := u.command(t.Context(), "run", file, "--time", "2s", "-o", dir)
		cmd.Env = append(cmd.Env, "KUBECONFIG="+config)
		err = cmd.Run()
		return dir, out.String() + words.String(), err
	}
	whole := u.write(t, "rights.yaml", "hosts: {kind: kubernetes, nodes: 2, namespace: nettoll}\nbaseline: cni\n"+
		"factors: {network: [{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n")
	for _, known := range []bool{false, true} {
		if known {
			u.kubectl(t, "apply", "-f", filepath.Join(packaged, "facts.yaml"))
		}
		dir, text, err := run(whole)
		if err != nil {
			t.Fatalf("with all rights: %v\n%s", err, text)
		}
		facts, _ := records(t, dir)
		proxy, _ := facts.Facts["service_proxy"].(string)
		runtime, _ := facts.Facts["container_runtime"].(string)
		if (proxy == "kube-proxy: iptables") != known || strings.HasPrefix(runtime, "containerd ") != known ||
			facts.Facts["pod_mtu"] != 1500.0 {
			t.Errorf("facts.yaml %v: services by %q, runtime %q, MTU %v", known, proxy, runtime, facts.Facts["pod_mtu"])
		}
	}
	for _, c := range []struct {
		namespace string
		status    int
		says      []string
	}{
		{"nettoll", 0, []string{
			"runs are possible, but not all", "  create pods/exec granted", "✗ create namespaces missing",
			"  get configmaps in kube-system granted",
		}},
		{"default", 1, []string{"no run is possible", "✗ create jobs missing"}},
	} {
		cmd, out, said := u.command(t.Context(), "doctor", "--cluster", "--namespace", c.namespace)
		cmd.Env = append(cmd.Env, "KUBECONFIG="+config)
		_ = cmd.Run() // its status says it
		if got := cmd.ProcessState.ExitCode(); got != c.status {
			t.Errorf("doctor in namespace %s: status %d, want %d\n%s", c.namespace, got, c.status, said)
		}
		for _, want := range c.says {
			if !strings.Contains(spaced.ReplaceAllString(out.String(), "$1 "), want) {
				t.Errorf("doctor in namespace %s does not say %q:\n%s", c.namespace, want, out)
			}
		}
	}
	study, out, said := u.command(t.Context(), "study", "policy", "--namespace", "nettoll", "--count", "1", "--patience", "2s")
	study.Env = append(study.Env, "KUBECONFIG="+config)
	if err := study.Run(); err != nil || !strings.Contains(out.String(), "Not enforced: egress") {
		t.Errorf("study policy with all rights: %v\n%s\n%s", err, out, said)
	}
	watched := u.write(t, "watched.yaml", "hosts: {kind: kubernetes, nodes: 2, namespace: nettoll, monitor: nodes}\n"+
		"baseline: cni\nfactors: {network: [{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n")
	if _, text, err := run(watched); err == nil || !strings.Contains(text, `cannot create resource "daemonsets"`) ||
		!strings.Contains(text, "leave out monitor: nodes") {
		t.Errorf("without the right to make DaemonSets: %v\n%s", err, text)
	}
	u.kubectl(t, "apply", "-f", filepath.Join(packaged, "monitor.yaml"))
	u.kubectl(t, "label", "--overwrite", "namespace", "nettoll", "pod-security.kubernetes.io/enforce=privileged")
	if dir, text, err := run(watched); err != nil {
		t.Errorf("with monitor.yaml: %v\n%s", err, text)
	} else if _, log := records(t, dir); len(measure.PassedIn(log.Labs)) == 0 {
		t.Errorf("with monitor.yaml nothing is known of devices:\n%s", text)
	}
	without := u.write(t, "without.yaml", "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\n"+
		"factors: {network: [{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n")
	if _, text, err := run(without); err == nil || !strings.Contains(text, `cannot create resource "namespaces"`) {
		t.Errorf("without the right to make namespaces: %v\n%s", err, text)
	}
}

// viaOf returns how sources reach their sinks in a lab or cell, by its name; "" if it is by their pods.
func viaOf(name string) string {
	_, after, _ := strings.Cut(name, "via=")
	via, _, _ := strings.Cut(after, ")")
	return via
}

// spaced are the spaces of a table.
var spaced = regexp.MustCompile(`(\S) {2,}`)

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

// A run outlives restarts of the API server, through which all calls pass, and of a kubelet: it repeats the block.
func (u *user) restarts(t *testing.T) {
	file := u.write(t, "restarts.yaml", "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\nfactors: {network: cni, "+
		"placement: cross-host, congestion-control: [reno, bbr]}\nworkloads: tcp-rr\n")
	dir := filepath.Join(u.dir, "restarts")
	cmd, out, said := u.command(t.Context(), "run", file, "--time", "30s", "-o", dir, "-v")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	trials := func() int {
		text, _ := os.ReadFile(filepath.Join(dir, control.RecordsFile))
		return bytes.Count(text, []byte(`"type":"trial"`))
	}
	more := func() {
		t.Helper()
		for began, have := time.Now(), trials(); trials() < have+6; time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > 90*time.Second {
				_ = cmd.Process.Kill()
				t.Fatalf("no more trials:\n%s", said)
			}
		}
	}
	more()
	if err := u.cluster.RestartServer(t.Context()); err != nil {
		t.Error(err)
	}
	more()
	node := u.cluster.Nodes()[1]
	if err := node.KillKubelet(t.Context()); err != nil {
		t.Error(err)
	}
	time.Sleep(5 * time.Second)
	if err := node.StartKubelet(t.Context()); err != nil {
		t.Error(err)
	}
	more()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, said)
	}
	t.Logf("%s\n%s", out, said)
	gone(t, time.Minute, func() []string { return u.left(t) })
}

// kill kills a run that measures.
func (u *user) kill(t *testing.T) (end time.Time) {
	file := u.write(t, "killed.yaml", "hosts: {kind: kubernetes, nodes: 2}\nfactors: {network: cni, placement: cross-host}\n"+
		"workloads: udp-rr\n")
	dir := filepath.Join(u.dir, "killed")
	cmd, _, said := u.command(t.Context(), "run", file, "--time", "1h", "-o", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if text, _ := os.ReadFile(filepath.Join(dir, control.RecordsFile)); bytes.Contains(text, []byte(`"type":"trial"`)) {
			break
		}
		if time.Since(began) > time.Minute {
			_ = cmd.Process.Kill()
			t.Fatalf("no trial after a minute:\n%s", said)
		}
	}
	names := u.kubectl(t, "get", "namespaces", "--selector", "app.kubernetes.io/managed-by=nettoll", "-o",
		"jsonpath={.items[*].metadata.name}")
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if len(names) != 1 {
		t.Fatalf("the run has the namespaces %v, want one", names)
	}
	u.killed = names[0]
	return time.Now()
}

// A run that was interrupted goes on, in another namespace and on the same nodes.
func (u *user) resumed(t *testing.T) {
	file := u.write(t, "resumed.yaml", "hosts: {kind: kubernetes, nodes: 2}\nfactors: {network: cni, placement: cross-host}\n"+
		"workloads: udp-rr\n")
	dir := filepath.Join(u.dir, "resumed")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, out, said := u.command(ctx, "run", file, "--time", "3s", "-o", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, control.RecordsFile))
		if bytes.Contains(text, []byte(`"type":"generation"`)) {
			break
		}
		if time.Since(began) > time.Minute {
			_ = cmd.Process.Kill()
			t.Fatalf("no generation after a minute:\n%s", said)
		}
	}
	cancel()
	_ = cmd.Wait() // its status says it
	if cmd.ProcessState.ExitCode() != 130 {
		t.Fatalf("status %d, want 130\n%s\n%s", cmd.ProcessState.ExitCode(), out, said)
	}
	cmd, out, said = u.command(t.Context(), "run", "--resume", dir)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	if _, log := records(t, dir); len(log.Resumes) != 1 || len(log.Generations) < 5 {
		t.Errorf("%d resumptions and %d generations, want 1 and 5 or more", len(log.Resumes), len(log.Generations))
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// A run that waits for nodes says for what, and can be interrupted, which removes what it has made.
func (u *user) fewNodes(t *testing.T) {
	file := u.write(t, "few.yaml", "hosts: {kind: kubernetes, nodes: 3}\nfactors: {network: cni}\nworkloads: udp-rr\n")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	cmd, _, said := u.command(ctx, "run", file, "-o", filepath.Join(u.dir, "few"))
	began := time.Now()
	_ = cmd.Run() // its status says it
	if took := time.Since(began); cmd.ProcessState.ExitCode() != 130 || took > 15*time.Second ||
		!strings.Contains(said.String(), "waiting: pod ") || !strings.Contains(said.String(), "it has no node: 0/2 nodes") {
		t.Errorf("status %d after %v, want 130 soon after 6 s, and what it has waited for:\n%s", cmd.ProcessState.ExitCode(),
			took, said)
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// When the controller is killed, the cluster removes everything by itself but the empty namespace, which nettoll clean
// removes.
func (u *user) cleaned(t *testing.T, end time.Time) {
	if end.IsZero() {
		t.Fatal("no run was killed")
	}
	gone(t, 3*time.Minute, func() []string {
		return u.kubectl(t, "get", "jobs,pods", "--namespace", u.killed, "-o", "name")
	})
	t.Logf("nothing was there any more %.0f s after the end of the controller", time.Since(end).Seconds())
	cmd, out, said := u.command(t.Context(), "clean", "--cluster")
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "namespace "+u.killed+" ") {
		t.Errorf("nettoll clean --cluster: %v\n%s\n%s", err, out, said)
	}
	t.Logf("%s", out)
}
