package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/worker"
)

// answer reads an answer of the API, nil for none.
func answer[T any](t *testing.T, text string) *T {
	t.Helper()
	if text == "" {
		return nil
	}
	v := new(T)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Configurations of kube-proxy, as kubeadm and Amazon store them.
const (
	kubeadm = `{"kind": "ConfigMap", "metadata": {"name": "kube-proxy"}, "data": {"config.conf": "apiVersion: ` +
		`kubeproxy.config.k8s.io/v1alpha1\nclusterCIDR: 10.244.0.0/16\nkind: KubeProxyConfiguration\nmode: \"\"\nnftables: ` +
		`null\n", "kubeconfig.conf": "apiVersion: v1\nkind: Config\n"}}`
	amazon = `{"kind": "ConfigMap", "metadata": {"name": "kube-proxy-config"}, "data": {"config": "apiVersion: ` +
		`kubeproxy.config.k8s.io/v1alpha1\nipvs:\n  scheduler: rr\nkind: KubeProxyConfiguration\nmode: ipvs\n"}}`
)

// What the settings of network plugins and of kube-proxy say becomes facts; what they do not say does not.
func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name                                 string
		proxy, cilium, flannel, pools, felix string
		want                                 map[string]any
	}{
		{name: "nothing may be read", want: map[string]any{}},
		{name: "kubeadm", proxy: kubeadm, want: map[string]any{serviceProxy: "kube-proxy: its default mode"}},
		{name: "amazon", proxy: amazon, want: map[string]any{serviceProxy: "kube-proxy: ipvs"}},
		{name: "no configuration", proxy: `{"data": {"kubeconfig.conf": "kind: Config"}}`, want: map[string]any{}},
		{
			name: "cilium without kube-proxy", proxy: kubeadm, cilium: `{"data": {"routing-mode": "native", "tunnel-protocol":
				"geneve", "enable-wireguard": "true", "kube-proxy-replacement": "true", "enable-ipv6": "false"}}`,
			want: map[string]any{
				serviceProxy: "cilium, instead of kube-proxy", podTunnel: "none (cilium)", podEncryption: "wireguard (cilium)",
			},
		},
		{
			name: "cilium beside kube-proxy", proxy: amazon, cilium: `{"data": {"routing-mode": "tunnel", "tunnel-protocol":
				"vxlan", "enable-ipsec": "true", "kube-proxy-replacement": "false"}}`,
			want: map[string]any{
				serviceProxy: "kube-proxy: ipvs", podTunnel: "vxlan (cilium)", podEncryption: "ipsec (cilium)",
			},
		},
		{
			name: "cilium 1.12", cilium: `{"data": {"tunnel": "geneve", "kube-proxy-replacement": "strict"}}`,
			want: map[string]any{
				serviceProxy: "cilium, instead of kube-proxy", podTunnel: "geneve (cilium)", podEncryption: "off (cilium)",
			},
		},
		{
			name: "cilium 1.12 without a tunnel", cilium: `{"data": {"tunnel": "disabled", "kube-proxy-replacement": "disabled"}}`,
			want: map[string]any{podTunnel: "none (cilium)", podEncryption: "off (cilium)"},
		},
		{
			name: "calico", proxy: kubeadm, pools: `{"items": [
				{"metadata": {"name": "default-ipv4-ippool"}, "spec": {"cidr": "192.168.0.0/16", "ipipMode": "CrossSubnet",
					"vxlanMode": "Never", "natOutgoing": true}},
				{"spec": {"cidr": "10.1.0.0/16", "vxlanMode": "Always"}}, {"spec": {"cidr": "fd00::/48"}},
				{"spec": {"cidr": "10.9.0.0/16", "ipipMode": "Always", "disabled": true}}]}`,
			felix: `{"metadata": {"name": "default"}, "spec": {"bpfConnectTimeLoadBalancing": "TCP", "logSeverityScreen": "Info"}}`,
			want: map[string]any{
				serviceProxy: "kube-proxy: its default mode", podTunnel: "ipip between subnets, vxlan, none (calico)",
				podEncryption: "off (calico)",
			},
		},
		{
			name: "calico by eBPF", proxy: kubeadm, pools: `{"items": []}`,
			felix: `{"spec": {"bpfEnabled": true, "wireguardEnabled": true}}`,
			want: map[string]any{
				serviceProxy: "calico, instead of kube-proxy", podEncryption: "wireguard for ipv4 (calico)",
			},
		},
		{
			name: "flannel", flannel: `{"data": {"cni-conf.json": "{}", "net-conf.json": "{\n \"Network\": \"10.244.0.0/16\",\n` +
				` \"Backend\": {\"Type\": \"vxlan\"}}"}}`,
			want: map[string]any{podTunnel: "vxlan (flannel)", podEncryption: "off (flannel)"},
		},
		{
			name: "canal", flannel: `{"data": {"net-conf.json": "{\"Backend\": {\"Type\": \"host-gw\"}}"}}`,
			felix: `{"spec": {"wireguardEnabled": true, "wireguardEnabledV6": true}}`,
			want: map[string]any{
				podTunnel: "none (flannel)", podEncryption: "wireguard (calico), off (flannel)",
			},
		},
		{
			name: "flannel encrypts", flannel: `{"data": {"net-conf.json": "{\"Backend\": {\"Type\": \"wireguard\"}}"}}`,
			want: map[string]any{podTunnel: "wireguard (flannel)", podEncryption: "wireguard (flannel)"},
		},
		{
			name: "a program of the user's", flannel: `{"data": {"net-conf.json": "{\"Backend\": {\"Type\": \"extension\"}}"}}`,
			want: map[string]any{podTunnel: "extension (flannel)"},
		},
		{name: "a setting that cannot be read", flannel: `{"data": {"net-conf.json": "{"}}`, want: map[string]any{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := settings{
				proxy: answer[configMap](t, tt.proxy), cilium: answer[configMap](t, tt.cilium),
				flannel: answer[configMap](t, tt.flannel), pools: answer[poolList](t, tt.pools), felix: answer[felix](t, tt.felix),
			}
			if diff := cmp.Diff(tt.want, s.facts()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What the object of a node says becomes facts.
func TestNodeFacts(t *testing.T) {
	n := answer[nodeObject](t, `{"metadata": {"name": "n1", "labels": {"kubernetes.io/arch": "amd64",
		"node.kubernetes.io/instance-type": "m6i.large", "topology.kubernetes.io/zone": "eu-west-1a"}}, "status": {"nodeInfo":
		{"architecture": "amd64", "containerRuntimeVersion": "containerd://1.7.28", "kernelVersion": "6.12.0", "kubeletVersion":
		"v1.35.4", "kubeProxyVersion": "", "operatingSystem": "linux", "osImage": "Debian GNU/Linux 13 (trixie)"}}}`)
	if diff := cmp.Diff(map[string]any{
		"container_runtime": "containerd 1.7.28", "kubelet": "v1.35.4", "os_image": "Debian GNU/Linux 13 (trixie)",
		"instance_type": "m6i.large", "zone": "eu-west-1a",
	}, n.facts()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{}, answer[nodeObject](t, "{}").facts()); diff != "" {
		t.Errorf("nothing said (-want +got):\n%s", diff)
	}
}

// The MTU of a pod is that of the links by which others reach it.
func TestLeastMTU(t *testing.T) {
	link := func(mtu int, addresses ...string) worker.Link {
		l := worker.Link{MTU: mtu}
		for _, a := range addresses {
			l.Addresses = append(l.Addresses, netip.MustParseAddr(a))
		}
		return l
	}
	lo, plain := link(1280, "127.0.0.1", "::1"), link(1300, "fe80::1")
	for _, tt := range []struct {
		links []worker.Link
		want  int
	}{
		{[]worker.Link{lo, link(1450, "10.244.1.7", "fd00::7", "fe80::7"), plain}, 1450},
		{[]worker.Link{lo, link(1450, "10.244.1.7"), link(1420, "172.16.0.1")}, 1420},
		{[]worker.Link{lo, plain}, 0},
	} {
		if got := leastMTU(tt.links); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.links, got, tt.want)
		}
	}
}

// All labs of a run stand at the same time, with a scout on each node, so their pods need room there.
func TestCrowded(t *testing.T) {
	lab := func(source, sink int) deploy.Spec {
		var s deploy.Spec
		s.Net.Hosts = []network.Host{
			{Containers: make([]network.Container, source)}, {Containers: make([]network.Container, sink)},
		}
		return s
	}
	const want = "run 111 pods on node n2 at the same time: not supported here: missing room on that node, which may have " +
		"110 (hint: choose fewer pairs, or fewer stacks in a run)"
	for _, tt := range []struct {
		room [2]int
		labs []deploy.Spec
		want string
	}{
		{[2]int{110, 110}, []deploy.Spec{lab(100, 100), lab(9, 9)}, "<nil>"},
		{[2]int{110, 110}, []deploy.Spec{lab(100, 100), lab(8, 10)}, want},
		{[2]int{110, 0}, []deploy.Spec{lab(100, 100), lab(8, 10)}, "<nil>"},
	} {
		err := crowded([]node{{name: "n1", room: tt.room[0]}, {name: "n2", room: tt.room[1]}}, tt.labs)
		if got := fmt.Sprint(err); got != tt.want {
			t.Errorf("room %v: got %s, want %s", tt.room, got, tt.want)
		}
	}
}
