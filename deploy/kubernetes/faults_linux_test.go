package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	// The scouts were started again. Without them their Job ends, and the cluster removes what belongs to it.
	_, log := records(t, dir)
	last := log.Blocks[len(log.Blocks)-1]
	if len(last.CPU) == 0 || len(last.Machines) != 1 || len(last.Machines[0].CPU) == 0 {
		t.Errorf("the load of a node is not known after the restarts: %+v", last)
	}
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
		!strings.Contains(said.String(), "waiting: 2 of 3 pods run: pod ") || !strings.Contains(said.String(), "it has no node: 0/2 nodes") {
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

// If nodes lack the image, the pods of a run that was killed never start, and so never end. nettoll clean leaves them
// as long as the run may wait for them, and then removes them: with the namespace of the run, or from that of a user.
func (u *user) killedEarly(t *testing.T) {
	const ours = "app.kubernetes.io/managed-by=nettoll"
	const text = "hosts: {kind: kubernetes, nodes: 2, image: 'localhost:1/nosuch:v1'%s}\n" +
		"baseline: cni\nfactors: {network: [{cni: {via: clusterip}}], placement: cross-host}\nworkloads: udp-rr\n"
	gone(t, 30*time.Second, func() []string { return u.left(t) }) // of what was cleaned before
	u.kubectl(t, "create", "namespace", "early")
	u.killSoon(t, "early-own", fmt.Sprintf(text, ""), 0, "--all-namespaces", "--selector", ours)
	u.killSoon(t, "early", fmt.Sprintf(text, ", namespace: early"), 0, "--namespace", "early")
	had := len(u.left(t))
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
