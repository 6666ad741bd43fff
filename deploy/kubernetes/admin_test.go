package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	pods "github.com/nettoll/nettoll/pod"
	"github.com/nettoll/nettoll/stack"
)

// parsed is a stack of pods.
func parsed(t *testing.T, id string) stack.Stack {
	t.Helper()
	s, err := pods.Kinds().Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// adminLab is a lab of one pair across two nodes.
func adminLab(t *testing.T, id string) *lab {
	t.Helper()
	hosts := make([]network.Host, 2)
	for i, name := range []string{"src0", "snk0"} {
		hosts[i] = network.Host{Index: i + 1, Containers: []network.Container{
			{Name: name, Ports: network.Ports{First: 20_000, Last: 20_003}},
		}}
	}
	spec := deploy.Spec{
		Stack: parsed(t, id), Pairs: []network.Pair{{Source: network.Spot{Host: 0}, Sink: network.Spot{Host: 1}}},
	}
	spec.Net.Hosts = hosts
	return &lab{
		name: "nettoll-7-1-lab", jobs: []jobSpec{{name: "one", apart: true}, {name: "two", apart: true}},
		spec: spec,
		deployment: &Deployment{run: "7", namespace: "measure", nodes: []node{
			{ipv4: netip.MustParseAddr("192.0.2.1")}, {ipv4: netip.MustParseAddr("192.0.2.2")},
		}},
	}
}

// kinds are those of a cluster with all fields: AdminNetworkPolicy and ClusterNetworkPolicy.
func kinds() (admin, cluster adminKind) {
	all := adminKinds()
	all[0].networks, all[1].networks = true, true
	return all[0], all[1]
}

// asJSON is an object as the API gets it.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same compares objects with what is wanted of them, as JSON.
func same(t *testing.T, got any, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(asJSON(t, got)), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Error(diff)
	}
}

// The policies of the whole cluster are about the pods of the lab alone, by names of Jobs in the namespace of the run.
// What is accepted comes before what is denied.
func TestAdminObjects(t *testing.T) {
	const within = `"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "measure"}}`
	const source = `{"pods": {` + within + `, "podSelector": {"matchLabels": {"nettoll/job": "one",
		"nettoll/pod": "0"}}}}`
	const sink = `{"pods": {` + within + `, "podSelector": {"matchLabels": {"nettoll/job": "two",
		"nettoll/pod": "0"}}}}`
	const whole = `{"pods": {` + within + `, "podSelector": {"matchLabels": {"nettoll/lab": "nettoll-7-1-lab"}}}}`
	head := func(version, kind, what, owner string) string {
		return fmt.Sprintf(`"apiVersion": "policy.networking.k8s.io/%s", "kind": %q, "metadata": {"name": "nettoll-7-1-lab-%s",
			%s "labels": {"app.kubernetes.io/managed-by": "nettoll", "nettoll/run": "7", "nettoll/lab": "nettoll-7-1-lab",
			"nettoll/namespace": "measure"}}`, version, kind, what, owner)
	}
	const made = `"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "measure", "uid": "u"}],`
	const anp, cnp = "AdminNetworkPolicy", "ClusterNetworkPolicy"
	const ports = `"ports": [{"portRange": {"protocol": "UDP", "start": 20000, "end": 20002}},
		{"portRange": {"protocol": "TCP", "start": 20000, "end": 20002}}]`
	const protocols = `"protocols": [{"udp": {"destinationPort": {"range": {"start": 20000, "end": 20002}}}},
		{"tcp": {"destinationPort": {"range": {"start": 20000, "end": 20002}}}}]`
	admin, cluster := kinds()
	plain, _ := kinds()
	plain.networks = false
	for _, tt := range []struct {
		name, stack string
		kind        adminKind
		made        bool // the namespace
		want        string
	}{
		{"admin", "cni+networkpolicy(kind=admin,rules=1)", admin, true, `[
			{` + head("v1alpha1", anp, "deny", made) + `, "spec": {"priority": 900, "subject": ` + whole + `,
				"ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}],
				"egress": [{"action": "Deny", "to": [{"namespaces": {}}, {"networks": ["0.0.0.0/0", "::/0"]}]}]}},
			{` + head("v1alpha1", anp, "sink0", made) + `, "spec": {"priority": 899, "subject": ` + sink + `,
				"ingress": [{"action": "Allow", "from": [` + source + `], ` + ports + `}]}},
			{` + head("v1alpha1", anp, "source0", made) + `, "spec": {"priority": 899, "subject": ` + source + `,
				"egress": [{"action": "Allow", "to": [` + sink + `], ` + ports + `}]}},
			{` + head("v1alpha1", anp, "decoys0", made) + `, "spec": {"priority": 898, "subject": ` + whole + `,
				"ingress": [{"action": "Allow", "from": [{"namespaces": {"matchLabels": {"nettoll/decoy": "0"}}}]}]}}]`},
		{"standard channel, own namespace", "cni+networkpolicy(kind=admin)", plain, false, `[
			{` + head("v1alpha1", anp, "deny", "") + `, "spec": {"priority": 900, "subject": ` + whole + `,
				"ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}],
				"egress": [{"action": "Deny", "to": [{"namespaces": {}}]}]}},
			{` + head("v1alpha1", anp, "sink0", "") + `, "spec": {"priority": 899, "subject": ` + sink + `,
				"ingress": [{"action": "Allow", "from": [` + source + `], ` + ports + `}]}},
			{` + head("v1alpha1", anp, "source0", "") + `, "spec": {"priority": 899, "subject": ` + source + `,
				"egress": [{"action": "Allow", "to": [` + sink + `], ` + ports + `}]}}]`},
		{"ClusterNetworkPolicy, to a node", "cni(via=nodeport)+networkpolicy(kind=admin)", cluster, false, `[
			{` + head("v1alpha2", cnp, "deny", "") + `, "spec": {"tier": "Admin", "priority": 900, "subject": ` + whole + `,
				"ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}],
				"egress": [{"action": "Deny", "to": [{"namespaces": {}}, {"networks": ["0.0.0.0/0", "::/0"]}]}]}},
			{` + head("v1alpha2", cnp, "sink0", "") + `, "spec": {"tier": "Admin", "priority": 899, "subject": ` + sink + `,
				"ingress": [{"action": "Accept", "from": [` + source + `], ` + protocols + `}]}},
			{` + head("v1alpha2", cnp, "source0", "") + `, "spec": {"tier": "Admin", "priority": 899, "subject": ` + source + `,
				"egress": [{"action": "Accept", "to": [` + sink + `, {"networks": ["192.0.2.2/32"]}], ` + protocols + `}]}}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := adminLab(t, tt.stack)
			if tt.made {
				l.deployment.within = object{"apiVersion": "v1", "kind": "Namespace", "name": "measure", "uid": "u"}
			}
			same(t, l.adminPoliciesOf(tt.kind, 898), tt.want)
		})
	}
}

// A sink with one allowed port has no range, which has two ports at least.
func TestAdminPort(t *testing.T) {
	admin, cluster := kinds()
	for _, tt := range []struct {
		kind adminKind
		want string
	}{
		{admin, `{"ports": [{"portNumber": {"protocol": "UDP", "port": 7}}, {"portNumber": {"protocol": "TCP", "port": 7}}]}`},
		{cluster, `{"protocols": [{"udp": {"destinationPort": {"number": 7}}}, {"tcp": {"destinationPort": {"number": 7}}}]}`},
	} {
		rule := object{}
		tt.kind.limit(rule, 7, 7)
		same(t, rule, tt.want)
	}
}

// All decoys are there, each once, in rules and policies that the API takes.
func TestAdminDecoys(t *testing.T) {
	admin, cluster := kinds()
	for _, kind := range []adminKind{admin, cluster} {
		for _, n := range []int{0, 1, 25, 26, 100, 101, 625, 626, 1000, 1001, pods.MaxRules} {
			seen, policies := map[string]bool{}, 0
			for _, p := range adminLab(t, fmt.Sprintf("cni+networkpolicy(kind=admin,rules=%d)", n)).adminPoliciesOf(kind, 0) {
				text := asJSON(t, p)
				if len(text) > 1<<20 { // etcd takes 1.5 MiB (--max-request-bytes)
					t.Errorf("%s, %d decoys: a policy has %d bytes", kind.kind, n, len(text))
				}
				spec := p["spec"].(object)                      //nolint:forcetypeassert // it panics
				name := p["metadata"].(object)["name"]          //nolint:forcetypeassert // as above
				if !strings.Contains(name.(string), "decoys") { //nolint:forcetypeassert // as above
					continue
				}
				policies++
				rules := spec["ingress"].([]object) //nolint:forcetypeassert // as above
				if len(rules) > kind.most || spec["priority"] != 0 {
					t.Errorf("%s, %d decoys: %d rules with priority %v", kind.kind, n, len(rules), spec["priority"])
				}
				for _, r := range rules {
					peers := r["from"].([]object) //nolint:forcetypeassert // as above
					if len(peers) == 0 || len(peers) > kind.most {
						t.Errorf("%s, %d decoys: a rule with %d peers", kind.kind, n, len(peers))
					}
					for _, peer := range peers {
						one := asJSON(t, peer)
						if seen[one] {
							t.Errorf("%s, %d decoys: %s is there twice", kind.kind, n, one)
						}
						seen[one] = true
					}
				}
			}
			each := min(peersEach, kind.most*kind.most)
			if want := (n + each - 1) / each; len(seen) != n || policies != want {
				t.Errorf("%s, %d decoys: %d peers in %d policies, want %d policies", kind.kind, n, len(seen), policies, want)
			}
		}
	}
}

// No priority is that of somebody else's policy, and policies of others come first if that is possible.
func TestFreePriority(t *testing.T) {
	var all []int
	for p := 0; p <= 1000; p += 3 {
		all = append(all, p)
	}
	for _, tt := range []struct {
		taken []int
		want  int // -1: none
	}{
		{nil, 998},
		{[]int{5, 10, 500}, 998},
		{[]int{1000}, 997},
		{[]int{998}, 995},
		{[]int{1000, 996}, 997},
		{[]int{999, 995}, 996},
		{all, -1},
		{append([]int{4, 5, 6}, all[3:]...), 1},
	} {
		got, err := freePriority(tt.taken)
		if err != nil != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%v: %d, %v; want %d", tt.taken, got, err, tt.want)
		}
	}
	list := adminList{}
	if err := json.Unmarshal([]byte(`{"items": [
		{"metadata": {"labels": {"app.kubernetes.io/managed-by": "nettoll"}}, "spec": {"tier": "Admin", "priority": 1}},
		{"metadata": {"labels": {"app.kubernetes.io/managed-by": "helm"}}, "spec": {"tier": "Admin", "priority": 2}},
		{"metadata": {}, "spec": {"tier": "Baseline", "priority": 3}}, {"metadata": {}, "spec": {"priority": 4}}]}`),
		&list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2}, list.takenPriorities("Admin")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{4}, list.takenPriorities("")); diff != "" {
		t.Error(diff)
	}
}

// The first kind that a cluster serves is used, with the fields that it has. Without one, the error names both.
func TestFindAdmin(t *testing.T) {
	const first, second = "/apis/policy.networking.k8s.io/v1alpha1", "/apis/policy.networking.k8s.io/v1alpha2"
	const admin, cluster = `{"resources": [{"name": "adminnetworkpolicies"}, {"name": "adminnetworkpolicies/status"}]}`,
		`{"resources": [{"name": "clusternetworkpolicies"}]}`
	document := func(kind, peer string) string {
		return `{"components": {"schemas": {"Other": {"x-kubernetes-group-version-kind": [{"kind": "Other"}]}, "One":
			{"x-kubernetes-group-version-kind": [{"kind": "` + kind + `"}], "properties": {"spec": {"properties": {"egress":
			{"items": {"properties": {"to": {"items": {"properties": {"pods": {}` + peer + `}}}}}}}}}}}}}`
	}
	const networks = `, "networks": {"items": {}}`
	for _, tt := range []struct {
		name    string
		answers map[string]string
		want    string // "": none
		fail    string
	}{
		{"none", nil, "", ""},
		{"both", map[string]string{
			first: admin, second: cluster, "/openapi/v3" + first: document("AdminNetworkPolicy", networks),
		}, "AdminNetworkPolicy v1alpha1", ""},
		{"standard channel", map[string]string{
			first: admin, "/openapi/v3" + first: document("AdminNetworkPolicy", ""),
		}, "AdminNetworkPolicy v1alpha1 without networks", ""},
		{"the newer one", map[string]string{
			second: cluster, "/openapi/v3" + second: document("ClusterNetworkPolicy", networks),
		}, "ClusterNetworkPolicy v1alpha2", ""},
		{"only others of the group", map[string]string{
			first: `{"resources": [{"name": "baselineadminnetworkpolicies"}]}`, second: cluster,
			"/openapi/v3" + second: document("ClusterNetworkPolicy", ""),
		}, "ClusterNetworkPolicy v1alpha2 without networks", ""},
		{"no description", map[string]string{first: admin}, "AdminNetworkPolicy v1alpha1 without networks", ""},
		{"nonsense", map[string]string{first: admin, "/openapi/v3" + first: "{"}, "", "ask what kind AdminNetworkPolicy has"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := findAdmin(t.Context(), func(_ context.Context, path string, into any) error {
				text, ok := tt.answers[path]
				if !ok {
					return &kubectl.StatusError{Code: http.StatusNotFound}
				}
				return json.Unmarshal([]byte(text), into)
			})
			got := ""
			if k != nil {
				got = k.String()
			}
			if got != tt.want || err != nil != (tt.fail != "") || err != nil && !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("%q, %v; want %q, error %q", got, err, tt.want, tt.fail)
			}
		})
	}
	away := errors.New("it is away")
	if _, err := findAdmin(t.Context(), func(context.Context, string, any) error { return away }); !errors.Is(err, away) {
		t.Errorf("%v, want that the server is away", err)
	}
}

// What a cluster lacks for policies of the whole cluster is named before anything is built. Other stacks do not ask.
func TestServesAdmin(t *testing.T) {
	admin, _ := kinds()
	plain := admin
	plain.networks = false
	away := errors.New("it is away")
	for _, tt := range []struct {
		name, stack string
		kind        *adminKind
		err         error
		missing     string // "": nothing
	}{
		{"served", "cni(via=nodeport)+networkpolicy(kind=admin)", &admin, nil, ""},
		{"standard channel", "cni(via=clusterip)+networkpolicy(kind=admin)", &plain, nil, ""},
		{
			"standard channel, to a node", "cni(via=nodeport)+networkpolicy(kind=admin)", &plain, nil,
			"field networks of kind AdminNetworkPolicy",
		},
		{
			"not served", "cni+networkpolicy(kind=admin)", nil, nil,
			"kind AdminNetworkPolicy v1alpha1 or ClusterNetworkPolicy v1alpha2 of policy.networking.k8s.io in the cluster",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := servesAdmin(tt.kind, tt.err, parsed(t, tt.stack))
			lacks, ok := errors.AsType[*linux.UnsupportedError](err)
			if ok != (tt.missing != "") || ok && !strings.HasPrefix(lacks.Missing, tt.missing) || !ok && err != nil {
				t.Errorf("%v, want %q", err, tt.missing)
			}
		})
	}
	if err := servesAdmin(nil, away, parsed(t, "cni+networkpolicy(kind=admin)")); !errors.Is(err, away) {
		t.Errorf("%v, want that the server is away", err)
	}
	d := &Deployment{} // it has no client
	for _, id := range []string{"host", "cni", "cni+networkpolicy", "cni+networkpolicy(kind=namespaced,rules=3)"} {
		if err := d.admissible(t.Context(), parsed(t, id)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Rights on policies of the whole cluster are asked for by the kind that a run would make, everywhere.
func TestAdminRights(t *testing.T) {
	admin, cluster := kinds()
	for kind, want := range map[adminKind][]string{
		admin:   {"list adminnetworkpolicies", "create adminnetworkpolicies", "delete adminnetworkpolicies"},
		cluster: {"list clusternetworkpolicies", "create clusternetworkpolicies", "delete clusternetworkpolicies"},
	} {
		var got []string
		for _, r := range adminRights(kind) {
			if got = append(got, r.name()); !r.everywhere || r.Needed || r.group != "policy.networking.k8s.io" {
				t.Errorf("%+v, want one of the whole cluster that not every run needs", r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
