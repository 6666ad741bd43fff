package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// define makes a NetworkAttachmentDefinition in namespace lab; without a configuration each node has it in a file.
func (u *user) define(t *testing.T, name, config string) {
	t.Helper()
	spec := map[string]any{}
	if config != "" {
		spec["config"] = config
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": map[string]any{"name": name, "namespace": "lab"}, "spec": spec,
	})
	if err == nil {
		err = u.cluster.Apply(t.Context(), string(text))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// attach runs an experiment over a definition of namespace lab, in which factors may have more.
func (u *user) attach(t *testing.T, name, more string) (status int, said, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	cmd, out, words := u.command(t.Context(), "run", u.write(t, name+".yaml", "hosts: {kind: kubernetes, nodes: 2}\n"+
		fmt.Sprintf("baseline: cni\nfactors: {network: [{cni: {secondary: lab/%s}}], %s}\n", name, more)+
		"workloads: [udp-rr, tcp-stream]\n"), "--time", "3s", "-o", dir)
	_ = cmd.Run() // its status says it
	return cmd.ProcessState.ExitCode(), strings.Join(strings.Fields(out.String()+words.String()), " "), dir
}

// Pods send over the second interface that they get by a NetworkAttachmentDefinition, in both families, on one node and
// across nodes, and their counters prove it. What is wrong with a definition is named.
func TestSecondary(t *testing.T) {
	u := newUser(t, testkube.Options{Multus: true})
	u.kubectl(t, "create", "namespace", "lab")
	u.define(t, testkube.Across, "")
	const side = `{"cniVersion": "0.4.0", "type": "bridge", "bridge": "side%s", "mtu": 1400%s}`
	addresses := func(ranges string) string { return `, "ipam": {"type": "host-local", "ranges": [` + ranges + `]}` }
	const v4, v6 = `[{"subnet": "10.246.0.0/24"}]`, `[{"subnet": "fd00:10:246::/64"}]`
	u.define(t, "side", fmt.Sprintf(side, "0", addresses(v4+","+v6)))
	u.define(t, "old", fmt.Sprintf(side, "1", addresses(v4)))
	u.define(t, "bare", fmt.Sprintf(side, "2", ""))
	u.define(t, "broken", `{"cniVersion": "0.4.0", "type": "nosuch"}`)
	for _, tt := range []struct{ name, more, fact string }{
		{testkube.Across, "family: [ipv4, ipv6]", "lab/across: in a file of each node"},
		{"side", "family: [ipv4, ipv6], placement: same-host", "lab/side: bridge with host-local"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, said, dir := u.attach(t, tt.name, tt.more)
			run, log := records(t, dir)
			if status != 0 {
				t.Fatalf("status %d: %s", status, said)
			}
			if fact := fmt.Sprint(run.Facts["secondary_networks"]); fact != "["+tt.fact+"]" {
				t.Errorf("the records say of the network: %s, want [%s]", fact, tt.fact)
			}
			u.passed(t, run, log)
		})
	}
	for _, tt := range []struct{ name, more, want string }{
		{"nosuch", "placement: same-host", `missing NetworkAttachmentDefinition "nosuch" in namespace "lab"`},
		{"bare", "placement: same-host", `has no address at its interface by "lab/bare" (hint: the configuration of the`},
		{"old", "placement: same-host, family: ipv6", `has no ipv6 address at net1, its interface by "lab/old"`},
		{"broken", "placement: same-host", `gets no interface by "lab/broken":`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, said, _ := u.attach(t, tt.name, tt.more)
			if status == 0 || !strings.Contains(said, tt.want) {
				t.Errorf("status %d, want another one and %s: %s", status, tt.want, said)
			}
		})
	}
}

// passed checks that all cells were measured, and that the claim of the path holds of all labs with a second interface
// and is made of no other one.
func (u *user) passed(t *testing.T, run measure.Run, log *measure.Log) {
	t.Helper()
	good := map[string]bool{}
	for _, trial := range log.Trials {
		good[trial.Cell] = good[trial.Cell] || trial.Failed == ""
	}
	for _, c := range run.Cells {
		if !good[c.ID] {
			t.Errorf("%s: no trial counts", c.ID)
		}
	}
	proved := map[string][]string{}
	for _, p := range log.Proofs {
		if !p.OK || p.Untold != "" {
			t.Errorf("%s: %s: %s%s", p.Lab, p.Claim, p.Detail, p.Untold)
		}
		if p.Name == proof.Path {
			proved[p.Lab] = append(proved[p.Lab], p.When)
		}
	}
	for lab := range proved {
		if !strings.Contains(lab, "secondary=") {
			t.Errorf("%s: its path is claimed", lab)
		}
		if !slices.Contains(proved[lab], "before") || !slices.Contains(proved[lab], "after") {
			t.Errorf("%s: its path is proved %v", lab, proved[lab])
		}
	}
	if len(proved) == 0 {
		t.Error("no path is claimed")
	}
	t.Logf("paths of %v", slices.Sorted(maps.Keys(proved)))
}

// A cluster without Multus says so before anything is built.
func (u *user) unattached(t *testing.T) {
	status, said, _ := u.attach(t, "fast", "placement: same-host")
	if status == 0 || !strings.Contains(said, "missing kind NetworkAttachmentDefinition in the cluster") {
		t.Errorf("status %d, want another one and what is missing: %s", status, said)
	}
}
