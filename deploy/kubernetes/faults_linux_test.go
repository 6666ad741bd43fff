package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/measure"
)

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

// A run outlives restarts of the API server, through which all calls pass, and of a kubelet: it repeats the block.
func (u *user) restarts(t *testing.T) {
	cmd, out, said, grows := u.growing(t, "restarts", "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\nfactors: {network: "+
		"cni, placement: cross-host, congestion-control: [reno, bbr]}\nworkloads: tcp-rr\n", "--time", "30s")
	more := func() { grows("trial", 6) }
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
	// The scouts were started again. Without them their Job ends, and the cluster removes what belongs to it.
	_, log := records(t, filepath.Join(u.dir, "restarts"))
	last := log.Blocks[len(log.Blocks)-1]
	if len(last.CPU) == 0 || len(last.Machines) != 1 || len(last.Machines[0].CPU) == 0 {
		t.Errorf("the load of a node is not known after the restarts: %+v", last)
	}
	gone(t, time.Minute, func() []string { return u.left(t) })
}

// growing starts a run, and returns it with a function that waits until a number of lines of a type are added to its
// records. The run ends with the test.
func (u *user) growing(t *testing.T, name, text string, args ...string) (cmd *exec.Cmd, out, said *bytes.Buffer,
	more func(kind string, n int),
) {
	t.Helper()
	dir := filepath.Join(u.dir, name)
	cmd, out, said = u.command(t.Context(), append([]string{"run", u.write(t, name+".yaml", text), "-o", dir, "-v"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := func(kind string) int {
		text, _ := os.ReadFile(filepath.Join(dir, control.RecordsFile)) // there is none yet
		return bytes.Count(text, []byte(`"type":"`+kind+`"`))
	}
	return cmd, out, said, func(kind string, n int) {
		t.Helper()
		for began, have := time.Now(), lines(kind); lines(kind) < have+n; time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > 90*time.Second {
				_ = cmd.Process.Kill()
				t.Fatalf("no more lines of type %s:\n%s", kind, said)
			}
		}
	}
}

// evict evicts a pod of a run by the Eviction API, as kubectl drain does: one whose name has a part.
func (u *user) evict(t *testing.T, part string) (name string) {
	t.Helper()
	pods := u.kubectl(t, "get", "pods", "--all-namespaces", "--selector", "app.kubernetes.io/managed-by=nettoll",
		"--field-selector", "status.phase=Running", "-o",
		`jsonpath={range .items[*]}{.metadata.namespace}{"/"}{.metadata.name}{"/"}{.metadata.deletionTimestamp}{"\n"}{end}`)
	i := slices.IndexFunc(pods, func(p string) bool {
		return strings.Contains(p, part) && strings.HasSuffix(p, "/") && // it does not go already
			!slices.ContainsFunc(u.killed, func(of string) bool { return strings.HasPrefix(p, of+"/") })
	})
	if i < 0 {
		t.Fatalf("no pod %q among %v", part, pods)
	}
	namespace, name, _ := strings.Cut(strings.TrimSuffix(pods[i], "/"), "/")
	u.kubectl(t, "create", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+name+"/eviction", "-f", u.write(t, "eviction.json",
		fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": %q}}`, name, namespace)))
	return name
}

// A pod of a lab that is evicted costs the lab, until the next generation: its trials have failed, no proof has. A scout
// that is evicted costs only the load of its node, and the last one ends the run with what it has.
func (u *user) evicted(t *testing.T) {
	const text = "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\nfactors: {network: cni, placement: cross-host, " +
		"congestion-control: [reno, bbr]}\nworkloads: tcp-rr\n"
	t.Run("lab", func(t *testing.T) {
		cmd, out, said, more := u.growing(t, "evicted", text, "--time", "15s")
		more("trial", 2) // so that the generation lasts longer than kubectl takes
		name := u.evict(t, "-host2-")
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s\n%s", err, out, said)
		}
		t.Logf("%s\n%s", out, said)
		_, log := records(t, filepath.Join(u.dir, "evicted"))
		lost, after := 0, 0
		for _, g := range log.Generations {
			for lab, reason := range g.Lost {
				lost = g.Generation
				if !strings.Contains(reason, name) {
					t.Errorf("lab %s was lost because %q, want something about pod %q", lab, reason, name)
				}
				if n := len(g.Lost); n != 1 {
					t.Errorf("%d labs were lost in a generation, want 1: %v", n, g.Lost)
				}
			}
			if lost > 0 && g.Generation > lost {
				after++
			}
		}
		if lost == 0 || after == 0 {
			t.Errorf("a lab was lost in generation %d, and there were %d after it; want both", lost, after)
		}
		unbroken(t, log)
		gone(t, time.Minute, func() []string { return u.left(t) })
	})
	t.Run("scout", func(t *testing.T) {
		cmd, out, said, more := u.growing(t, "scouts", text, "--time", "1h")
		more("trial", 6)
		u.evict(t, "-scouts-")
		more("generation", 2)
		u.evict(t, "-scouts-")
		_ = cmd.Wait() // its status says it
		t.Logf("%s\n%s", out, said)
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "is not there any more: a pod of it has ended") ||
			!strings.Contains(out.String(), "The run ended because it failed. All records are in") {
			t.Errorf("status %d, want 1, why, and the report", cmd.ProcessState.ExitCode())
		}
		_, log := records(t, filepath.Join(u.dir, "scouts"))
		if log.End == nil || log.End.Why != measure.EndFailed || log.End.Blocks == 0 {
			t.Errorf("the run ended with %+v, want that it failed after some blocks", log.End)
		}
		known, unknown := 0, 0 // blocks with the load of each node, or not of all
		for _, b := range log.Blocks {
			if len(b.CPU) > 0 && len(b.Machines) == 1 && len(b.Machines[0].CPU) > 0 {
				known++
			} else {
				unknown++
			}
		}
		if known == 0 || unknown == 0 {
			t.Errorf("the load of all nodes is known in %d blocks, and not known in %d; want both", known, unknown)
		}
		unbroken(t, log)
		gone(t, time.Minute, func() []string { return u.left(t) })
	})
}

// unbroken wants all proofs of a run to hold: what happens to nodes and pods is no evidence against a stack.
func unbroken(t *testing.T, log *measure.Log) {
	t.Helper()
	for _, p := range log.Proofs {
		if !p.OK {
			t.Errorf("%s: %s: %s", p.Lab, p.Claim, p.Detail)
		}
	}
	if len(log.Proofs) == 0 {
		t.Error("nothing was proved")
	}
}

// If a node is not ready any more, labs on the other one are measured to the end. Labs on both are lost, with what is the
// matter with the node. What is left there goes when the kubelet runs again.
func (u *user) nodeLost(t *testing.T) {
	cmd, out, said, more := u.growing(t, "node-lost", "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\nfactors: {network: cni, "+
		"placement: [same-host, cross-host], congestion-control: [reno, bbr]}\nworkloads: tcp-rr\n", "--time", "20s")
	more("trial", 8)
	node := u.cluster.Nodes()[1]
	if err := node.KillKubelet(t.Context()); err != nil {
		t.Error(err)
	}
	began := time.Now()
	_ = cmd.Wait() // its status says it
	t.Logf("%.0f s after the end of the kubelet:\n%s\n%s", time.Since(began).Seconds(), out, said)
	if err := node.StartKubelet(t.Context()); err != nil {
		t.Error(err)
	}
	if cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("status %d, want 3: some cells are not measured to the end", cmd.ProcessState.ExitCode())
	}
	run, log := records(t, filepath.Join(u.dir, "node-lost"))
	if log.End == nil || log.End.Why != measure.EndTime {
		t.Errorf("the run ended with %+v, want that the time was up", log.End)
	}
	last := log.Generations[len(log.Generations)-1]
	good := map[string]bool{} // in the last generation, by cell
	for _, x := range log.Trials {
		good[x.Cell] = good[x.Cell] || x.Generation == last.Generation && x.Failed == ""
	}
	for _, c := range run.Cells {
		if same := strings.Contains(c.ID, "/same-host/"); good[c.ID] != same {
			t.Errorf("%s: measured in the last generation: %v, want %v", c.ID, good[c.ID], same)
		}
	}
	named := 0
	for _, g := range log.Generations {
		for lab, reason := range g.Lost {
			if !strings.Contains(lab, "/cross-host/") {
				t.Errorf("lab %s was lost: %s", lab, reason)
			}
			if strings.Contains(reason, fmt.Sprintf("node %q is not ready: ", node.Name())) {
				named++
			}
		}
	}
	if named == 0 {
		t.Error("no lab was lost because the node is not ready")
	}
	unbroken(t, log)
	u.kubectl(t, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
	gone(t, time.Minute, func() []string { return u.left(t) })
}

// A quota that refuses pods is named soon, those of scouts before anything is built, or those of labs.
func (u *user) quota(t *testing.T) {
	for _, c := range []struct {
		name string
		pods int
		says string
	}{
		{"scouts", 1, "-scouts"}, // of two
		{"labs", 3, "baseline cni/cross-host/1/free/udp-rr"},
	} {
		t.Run(c.name, func(t *testing.T) {
			namespace := "quota-" + c.name
			u.kubectl(t, "create", "namespace", namespace)
			u.kubectl(t, "create", "quota", "small", "--namespace", namespace, fmt.Sprintf("--hard=pods=%d", c.pods))
			gone(t, 30*time.Second, func() []string { // nothing is refused before a controller has counted what there is
				if len(u.kubectl(t, "get", "quota", "small", "--namespace", namespace, "-o", "jsonpath={.status.used.pods}")) > 0 {
					return nil
				}
				return []string{"quota without status"}
			})
			file := u.write(t, namespace+".yaml", "hosts: {kind: kubernetes, nodes: 2, namespace: "+namespace+"}\nbaseline: cni\n"+
				"factors: {network: [{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n")
			dir := filepath.Join(u.dir, namespace)
			cmd, out, said := u.command(t.Context(), "run", file, "--time", "2s", "-o", dir, "-v")
			began := time.Now()
			_ = cmd.Run() // its status says it
			took := time.Since(began)
			t.Logf("%.1f s: %s\n%s", took.Seconds(), said, out)
			if cmd.ProcessState.ExitCode() != 1 || took > 30*time.Second {
				t.Errorf("status %d after %v, want 1 soon", cmd.ProcessState.ExitCode(), took)
			}
			for _, want := range []string{
				c.says, `" gets no pods: `, "exceeded quota: small", "(hint: measure fewer pairs or stacks",
			} {
				if !strings.Contains(strings.Join(strings.Fields(said.String()), " "), want) {
					t.Errorf("it does not say %q", want)
				}
			}
			gone(t, 30*time.Second, func() []string { return u.left(t) })
		})
	}
}

// ended is a run that was killed.
type ended struct {
	namespace string
	at        time.Time
}

// died notes the end of a run that was killed, in the only namespace of nettoll whose run was not killed before.
func (u *user) died(t *testing.T) ended {
	t.Helper()
	end := time.Now()
	names := slices.DeleteFunc(u.kubectl(t, "get", "namespaces", "--selector", "app.kubernetes.io/managed-by=nettoll", "-o",
		"jsonpath={.items[*].metadata.name}"), func(name string) bool { return slices.Contains(u.killed, name) })
	if len(names) != 1 {
		t.Fatalf("the run has the namespaces %v, want one", names)
	}
	u.killed = append(u.killed, names[0])
	return ended{names[0], end}
}

// killFirst kills a run that waits for its first pods, which never start.
func (u *user) killFirst(t *testing.T) ended {
	u.killSoon(t, "first", "hosts: {kind: kubernetes, nodes: 2, image: 'localhost:1/nosuch:v1'}\n"+
		"factors: {network: cni}\nworkloads: udp-rr\n", 0, "--all-namespaces", "--selector",
		"app.kubernetes.io/managed-by=nettoll")
	return u.died(t)
}

// limits returns the limits of all Jobs of a namespace that have one, in s.
func (u *user) limits(t *testing.T, namespace string) []string {
	t.Helper()
	return u.kubectl(t, "get", "jobs", "--namespace", namespace, "-o", "jsonpath={.items[*].spec.activeDeadlineSeconds}")
}

// kill kills a run that measures.
func (u *user) kill(t *testing.T) ended {
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
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	was := u.died(t)
	if limits := u.limits(t, was.namespace); len(limits) > 0 {
		t.Errorf("the Jobs of a run that measures have limits: %v s", limits)
	}
	return was
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
		!strings.Contains(said.String(), "waiting: 2 of 3 pods run: pod ") || !strings.Contains(said.String(), "it has no node: 0/2 nodes") {
		t.Errorf("status %d after %v, want 130 soon after 6 s, and what it has waited for:\n%s", cmd.ProcessState.ExitCode(),
			took, said)
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
}

// When the controller is killed, the cluster removes everything by itself but the empty namespace, which nettoll clean
// removes. A run that was not killed has no namespace.
func (u *user) cleaned(t *testing.T, runs ...ended) {
	runs = slices.DeleteFunc(runs, func(r ended) bool { return r.namespace == "" })
	if len(runs) == 0 {
		t.Fatal("no run was killed")
	}
	for _, r := range runs { // one that waits for its first pods has a limit of four minutes, and is kept for half of one
		gone(t, 6*time.Minute, func() []string {
			return u.kubectl(t, "get", "jobs,pods", "--namespace", r.namespace, "-o", "name")
		})
		t.Logf("%s: nothing was there any more %.0f s after the end of the controller", r.namespace, time.Since(r.at).Seconds())
	}
	cmd, out, said := u.command(t.Context(), "clean", "--cluster")
	if err := cmd.Run(); err != nil {
		t.Errorf("nettoll clean --cluster: %v\n%s\n%s", err, out, said)
	}
	for _, r := range runs {
		if want := "removed namespace " + r.namespace + " "; !strings.Contains(out.String(), want) {
			t.Errorf("nettoll clean --cluster does not say %q:\n%s\n%s", want, out, said)
		}
	}
	u.killed = nil
}

// killSoon starts a run, and kills it some time after there are pods that wait, which are chosen by arguments of
// kubectl.
func (u *user) killSoon(t *testing.T, name, text string, after time.Duration, waiting ...string) {
	t.Helper()
	cmd, out, said := u.command(t.Context(), "run", u.write(t, name+".yaml", text), "--time", "1h", "-o",
		filepath.Join(u.dir, name))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if pods := u.kubectl(t, append([]string{
			"get", "pods", "--field-selector", "status.phase=Pending", "-o", "name",
		}, waiting...)...); len(pods) > 0 {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("%v\n%s\n%s", err, out, said)
		default:
		}
		if time.Since(began) > time.Minute {
			_ = cmd.Process.Kill()
			t.Fatalf("no pod waits after a minute:\n%s", said)
		}
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	if err := <-ended; err == nil {
		t.Error("a run that was killed has ended well")
	}
}

// If nodes lack the image, the pods of a run that was killed never start. Their Job has a limit, and ends some time after
// the run would have given up. nettoll clean leaves them as long as the run may wait for them, and then removes them:
// with the namespace of the run, or from that of a user.
func (u *user) killedEarly(t *testing.T) {
	const ours = "app.kubernetes.io/managed-by=nettoll"
	const text = "hosts: {kind: kubernetes, nodes: 2, image: 'localhost:1/nosuch:v1'%s}\n" +
		"baseline: cni\nfactors: {network: [{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n"
	gone(t, 30*time.Second, func() []string { return u.left(t) }) // of what was cleaned before
	u.kubectl(t, "create", "namespace", "early")
	u.killSoon(t, "early-own", fmt.Sprintf(text, ""), 0, "--all-namespaces", "--selector", ours)
	u.killSoon(t, "early", fmt.Sprintf(text, ", namespace: early"), 0, "--namespace", "early")
	had := len(u.left(t))
	if limits := u.limits(t, "early"); !slices.Equal(limits, []string{"240"}) {
		t.Errorf("the Jobs of a run whose first pods do not run have the limits %v s, want one of 240", limits)
	}
	cmd, out, said := u.command(t.Context(), "clean", "--cluster")
	if err := cmd.Run(); err != nil || strings.Count(out.String(), "its run may still start") != 2 ||
		!strings.Contains(out.String(), "left namespace nettoll-") || !strings.Contains(out.String(), "left run early/") {
		t.Errorf("nettoll clean --cluster: %v\n%s\n%s\nwant that two runs may still start", err, out, said)
	}
	if left := u.left(t); had != 7 || len(left) != had { // a namespace, and twice a Job and two pods
		t.Errorf("%d objects before, %q after; want 7, and the same", had, left)
	}
	done, err := kubernetes.CleanOlder(t.Context(), kubectl.Options{
		Program: filepath.Join(u.dir, "bin", "kubectl"), Env: u.env,
	}, 0)
	if err != nil || len(done.Removed) != 2 || len(done.Left) > 0 {
		t.Errorf("cleaned: %+v, %v; want a namespace and a Job", done, err)
	}
	gone(t, 30*time.Second, func() []string { return u.left(t) })
	if kept := u.kubectl(t, "get", "namespace", "early", "-o", "name"); len(kept) != 1 {
		t.Errorf("namespace early: %v", kept)
	}
}

// If nodes have no room for the pods of a lab, the cluster removes them nevertheless once the scouts of the run that was
// killed have ended.
func (u *user) killedPending(t *testing.T) {
	u.kubectl(t, "create", "namespace", "tight")
	cpus := strings.Join(u.kubectl(t, "get", "nodes", "-o", "jsonpath={.items[0].status.allocatable.cpu}"), "")
	n, err := strconv.Atoi(cpus)
	if err != nil {
		t.Fatal(err)
	}
	// The pod of a scout takes more than half of its node.
	if err := u.cluster.Apply(t.Context(), fmt.Sprintf(`{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name":
		"large", "namespace": "tight"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "%dm"}}]}}`,
		n*600)); err != nil {
		t.Fatal(err)
	}
	// Pods look once a second whether their scouts have come. Those that have seen none wait for two minutes more.
	u.killSoon(t, "tight", "hosts: {kind: kubernetes, nodes: 2, namespace: tight}\nbaseline: cni\nfactors: {network: "+
		"[{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n", 5*time.Second, "--namespace", "tight",
		"--selector", "nettoll/lab")
	began := time.Now()
	for _, node := range u.cluster.Nodes() { // the end of the scouts makes room
		u.kubectl(t, "cordon", node.Name())
		defer u.kubectl(t, "uncordon", node.Name())
	}
	// The scouts end after a minute, and their Job is kept for half a minute.
	gone(t, 2*time.Minute, func() []string { return u.left(t) })
	t.Logf("%.0f s after the end of the controller", time.Since(began).Seconds())
}
