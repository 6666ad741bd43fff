package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
)

// A policyKind is a kind of policies of the whole cluster.
type policyKind struct {
	kind, version, resource string
	accept                  string // the action
	tier                    string // "": it has none
	// judged says that a process of each node decides on each connection. If the machine is busy, there is no time for all
	// tries then.
	judged bool
}

// String is the kind as facts name it.
func (k policyKind) String() string { return k.kind + " " + k.version }

// other is a policy of somebody else, which concerns all packets of pods in some namespaces.
func (k policyKind) other(name string, priority int, namespaces, action string) string {
	tier := ""
	if k.tier != "" {
		tier = fmt.Sprintf(`"tier": %q, `, k.tier)
	}
	return fmt.Sprintf(`{"apiVersion": "policy.networking.k8s.io/%[1]s", "kind": %[2]q, "metadata": {"name": %[3]q},
		"spec": {%[4]s"priority": %[5]d, "subject": {"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": %[6]q}}},
		"ingress": [{"action": %[7]q, "from": [{"namespaces": {}}]}], "egress": [{"action": %[7]q, "to": [{"namespaces": {}}]}]}}`,
		k.version, k.kind, name, tier, priority, namespaces, action)
}

// adminLeft are the policies of the whole cluster that nettoll has made, if the cluster knows them.
func (u *user) adminLeft(t *testing.T, k policyKind) []string {
	t.Helper()
	return u.kubectl(t, "get", k.resource, "--selector", "app.kubernetes.io/managed-by=nettoll", "-o", "name")
}

// Policies of the whole cluster are enforced by the reference implementation of SIG Network.
func TestAdminPolicies(t *testing.T) {
	testnet.KubeFull(t, "it needs a network plugin that is built for minutes")
	u := newUser(t, testkube.Options{Network: testkube.Admin, Proxy: true})
	u.clusterPolicies(t, policyKind{
		kind: "AdminNetworkPolicy", version: "v1alpha1", resource: "adminnetworkpolicies", accept: "Allow", judged: true,
	}, "pod", "clusterip", "nodeport")
}

// Policies of the whole cluster hold on a network that enforces them: without them pairs talk, and with them only what the
// list allows passes, in both families, on one node and across nodes, and between pairs. A policy of somebody else that
// comes before them and allows more is a leak, which is found. Nothing is left, unless nettoll was killed, and then
// nettoll clean removes it.
func (u *user) clusterPolicies(t *testing.T, k policyKind, vias ...string) {
	const text = "baseline: cni\nfactors: {network: [{cni: {via: %s}}], filter: {networkpolicy: {kind: admin, rules: %d}}, " +
		"pairs: 2, family: [ipv4, ipv6]}\nworkloads: udp-rr\n"
	t.Run("hold", func(t *testing.T) {
		// It is about pods of another namespace, and has the priority that nettoll would take.
		if err := u.cluster.Apply(t.Context(), k.other("elsewhere", 1000, "elsewhere", "Deny")); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(u.dir, "whole-hold")
		cmd, out, said := u.command(t.Context(), "run", u.write(t, "hold.yaml", "hosts: {kind: kubernetes, nodes: 2}\n"+
			fmt.Sprintf(text, "["+strings.Join(vias, ", ")+"]", 3)), "--time", "2s", "--proof-budget", "90%", "-o", dir)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, said)
		}
		run, log := records(t, dir)
		enforced(t, log, len(vias))
		allowed, closed, open := 0, 0, 0
		if reachesInTime(t, log, func(lab, from, to string) measure.Reach {
			switch {
			case !strings.Contains(lab, "networkpolicy"):
				open++
				return measure.ReachOpen
			case from[:3] == "src" && to == "snk"+from[3:]:
				allowed++
				return measure.ReachAllowed
			}
			closed++
			return measure.ReachRefused
		}, k.judged) == 0 || allowed == 0 || closed == 0 || open == 0 {
			t.Errorf("who reaches whom: %d that policies allow, %d that they refuse, %d without policies; want some of each",
				allowed, closed, open)
		}
		if got := run.Facts["admin_policies"]; got != k.String() {
			t.Errorf("fact admin_policies: %v", got)
		}
		t.Logf("%s", out)
		gone(t, 30*time.Second, func() []string { return append(u.left(t), u.adminLeft(t, k)...) })
	})
	t.Run("too wide", func(t *testing.T) {
		u.kubectl(t, "create", "namespace", "whole-wide")
		if err := u.cluster.Apply(t.Context(), k.other("wide", 7, "whole-wide", k.accept)); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(u.dir, "whole-wide")
		cmd, out, said := u.command(t.Context(), "run", u.write(t, "wide.yaml",
			"hosts: {kind: kubernetes, nodes: 2, namespace: whole-wide}\n"+fmt.Sprintf(text, "pod", 0)), "--time", "2s", "-o", dir)
		_ = cmd.Run() // its status says it
		if cmd.ProcessState.ExitCode() != 4 ||
			!strings.Contains(strings.Join(strings.Fields(out.String()), " "), "the filter allows packets that it must refuse") {
			t.Errorf("status %d, want 4 and the leak:\n%s\n%s", cmd.ProcessState.ExitCode(), out, said)
		}
		if _, log := records(t, dir); leaked(log) == 0 {
			t.Errorf("who reaches whom shows no leak:\n%s", out)
		}
		gone(t, 30*time.Second, func() []string { return append(u.left(t), u.adminLeft(t, k)...) })
		if kept := u.kubectl(t, "get", k.resource, "-o", "name"); len(kept) != 2 {
			t.Errorf("policies of others: %v, want both", kept)
		}
	})
	t.Run("killed", func(t *testing.T) { u.killAdmin(t, k, text) })
	t.Run("rights", func(t *testing.T) { u.adminRights(t, k) })
}

// adminRights wants the rights of packaging/kubernetes to be too few for policies of the whole cluster, which is said
// before anything is built, and those with admin.yaml to be enough.
func (u *user) adminRights(t *testing.T, k policyKind) {
	packaged := filepath.Join("..", "..", "packaging", "kubernetes")
	u.kubectl(t, "apply", "-k", packaged)
	text, err := os.ReadFile(u.config)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	users, _ := config["users"].([]any)
	for _, one := range users {
		entry, _ := one.(map[string]any)
		if user, ok := entry["user"].(map[string]any); ok {
			user["as"] = "system:serviceaccount:nettoll:measurer"
		}
	}
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	as := u.write(t, "as.kubeconfig", string(text))
	for _, tt := range []struct {
		status int
		says   []string
	}{
		{1, []string{"left out: lab cni+networkpolicy(kind=admin)", "missing right to list " + k.resource + " in the whole cluster"}},
		{0, nil},
	} {
		if tt.status == 0 {
			u.kubectl(t, "apply", "-f", filepath.Join(packaged, "admin.yaml"))
		}
		cmd, out, said := u.command(t.Context(), "run", u.write(t, "rights.yaml",
			"hosts: {kind: kubernetes, nodes: 2, namespace: nettoll}\nbaseline: cni\nfactors: {network: cni, "+
				"filter: {networkpolicy: {kind: admin}}, placement: cross-host}\nworkloads: udp-rr\n"), "--time", "1s", "-o",
			filepath.Join(t.TempDir(), "run"))
		cmd.Env = append(cmd.Env, "KUBECONFIG="+as)
		_ = cmd.Run() // its status says it
		all := strings.Join(strings.Fields(out.String()+said.String()), " ")
		for _, want := range tt.says {
			if !strings.Contains(all, want) {
				t.Errorf("no %q in:\n%s\n%s", want, out, said)
			}
		}
		if got := cmd.ProcessState.ExitCode(); got != tt.status {
			t.Errorf("status %d, want %d:\n%s\n%s", got, tt.status, out, said)
		}
	}
	cmd, out, said := u.command(t.Context(), "doctor", "--cluster", "--namespace", "nettoll")
	cmd.Env = append(cmd.Env, "KUBECONFIG="+as)
	if err := cmd.Run(); err != nil || !strings.Contains(strings.Join(strings.Fields(out.String()), " "),
		"create "+k.resource+" granted") {
		t.Errorf("nettoll doctor: %v\n%s\n%s", err, out, said)
	}
	gone(t, 30*time.Second, func() []string { return append(u.left(t), u.adminLeft(t, k)...) })
}

// killAdmin kills a run in a namespace of the user. Its policies of the whole cluster stay as long as it has pods, and
// nettoll clean then removes them, and none of others.
func (u *user) killAdmin(t *testing.T, k policyKind, text string) {
	u.kubectl(t, "create", "namespace", "killed")
	cmd, _, said := u.command(t.Context(), "run", u.write(t, "killed.yaml",
		"hosts: {kind: kubernetes, nodes: 2, namespace: killed}\n"+fmt.Sprintf(text, "pod", 0)), "--time", "1h", "-o",
		filepath.Join(u.dir, "whole-killed"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); len(u.adminLeft(t, k)) < 3; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("no policies within a minute\n%s", said)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	clean := func() string {
		t.Helper()
		cmd, out, said := u.command(t.Context(), "clean", "--cluster")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, said)
		}
		return out.String()
	}
	if left := clean(); !strings.Contains(left, "left "+k.kind+" nettoll-") || len(u.adminLeft(t, k)) == 0 {
		t.Errorf("nettoll clean does not leave policies of a run with pods alone:\n%s", left)
	}
	gone(t, 4*time.Minute, func() []string { return u.kubectl(t, "get", "pods", "--namespace", "killed", "-o", "name") })
	if removed := clean(); !strings.Contains(removed, "removed "+k.kind+" nettoll-") || len(u.adminLeft(t, k)) > 0 {
		t.Errorf("nettoll clean does not remove policies of a run without pods:\n%s", removed)
	}
	if kept := u.kubectl(t, "get", k.resource, "-o", "name"); len(kept) != 2 {
		t.Errorf("policies of others: %v, want both", kept)
	}
}
