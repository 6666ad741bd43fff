package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/nettoll/nettoll/worker"
)

// Names of facts about the network of a cluster.
const (
	serviceProxy  = "service_proxy"  // who turns addresses of services into those of pods
	podTunnel     = "pod_tunnel"     // between nodes
	podEncryption = "pod_encryption" // between nodes
	podMTU        = "pod_mtu"        // bytes
)

// Where network plugins have their settings.
const (
	system      = "kube-system"
	ofFlannel   = "kube-flannel"
	ciliumMap   = "cilium-config"
	flannelMap  = "kube-flannel-cfg"
	calicoGroup = "crd.projectcalico.org"
)

// proxyMaps are names of the configuration of kube-proxy: that of kubeadm, and that of Amazon.
func proxyMaps() []string { return []string{"kube-proxy", "kube-proxy-config"} }

// A configMap is what the API tells of a ConfigMap.
type configMap struct {
	Data map[string]string `json:"data"`
}

// A poolList is what the API tells of Calico's ranges of addresses (api/pkg/apis/projectcalico/v3/ippool.go of
// projectcalico/calico).
type poolList struct {
	Items []struct {
		Spec struct {
			IPIP     string `json:"ipipMode"`  // "": Never
			VXLAN    string `json:"vxlanMode"` // "": Never
			Disabled bool   `json:"disabled"`
		} `json:"spec"`
	} `json:"items"`
}

// A felix is what the API tells of the settings of Calico's daemon (felixconfig.go, as above).
type felix struct {
	Spec struct {
		WireGuard4 bool `json:"wireguardEnabled"`
		WireGuard6 bool `json:"wireguardEnabledV6"`
		BPF        bool `json:"bpfEnabled"`
	} `json:"spec"`
}

// settings are those of a cluster's network. What is nil could not be read, or is not there.
type settings struct {
	proxy, cilium, flannel *configMap
	pools                  *poolList
	felix                  *felix
}

// readSettings reads what the user may.
func (d *Deployment) readSettings(ctx context.Context) (s settings) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var group sync.WaitGroup
	find := func(to **configMap, namespaces []string, names ...string) {
		group.Go(func() {
			for _, namespace := range namespaces {
				for _, name := range names {
					if m := fetch[configMap](ctx, d, core+"/namespaces/"+namespace+"/configmaps/"+name); m != nil {
						*to = m
						return
					}
				}
			}
		})
	}
	find(&s.proxy, []string{system}, proxyMaps()...)
	find(&s.cilium, []string{system}, ciliumMap)
	find(&s.flannel, []string{ofFlannel, system}, flannelMap)
	group.Go(func() { s.pools = fetch[poolList](ctx, d, "/apis/"+calicoGroup+"/v1/ippools") })
	group.Go(func() { s.felix = fetch[felix](ctx, d, "/apis/"+calicoGroup+"/v1/felixconfigurations/default") })
	group.Wait()
	return s
}

// fetch reads an object; nil if it is not there, or may not be read.
func fetch[T any](ctx context.Context, d *Deployment, path string) *T {
	v := new(T)
	if d.client.Get(ctx, path, v) != nil {
		return nil
	}
	return v
}

// facts are what the settings say. Each names who has the setting.
func (s settings) facts() map[string]any {
	all := map[string]any{}
	put := func(fact, by, value string) {
		if value == "" {
			return
		}
		value += " (" + by + ")"
		if had, ok := all[fact].(string); ok {
			value = had + ", " + value
		}
		all[fact] = value
	}
	if s.cilium != nil {
		put(podTunnel, "cilium", ciliumTunnel(s.cilium.Data))
		put(podEncryption, "cilium", ciliumEncryption(s.cilium.Data))
	}
	if s.pools != nil {
		put(podTunnel, "calico", s.pools.tunnel())
	}
	if s.felix != nil {
		put(podEncryption, "calico", s.felix.encryption())
	}
	if s.flannel != nil {
		tunnel, encryption := flannelBackend(s.flannel.Data)
		put(podTunnel, "flannel", tunnel)
		put(podEncryption, "flannel", encryption)
	}
	switch mode, known := s.proxyMode(); {
	case s.cilium != nil && ciliumReplaces(s.cilium.Data):
		all[serviceProxy] = "cilium, instead of kube-proxy"
	case s.felix != nil && s.felix.Spec.BPF:
		all[serviceProxy] = "calico, instead of kube-proxy"
	case known:
		all[serviceProxy] = "kube-proxy: " + cmp.Or(mode, "its default mode")
	}
	return all
}

// proxyMode returns the mode of kube-proxy, such as "ipvs"; "" for the one that its version prefers (type
// KubeProxyConfiguration of k8s.io/kube-proxy/config/v1alpha1). known is false if there is no configuration.
func (s settings) proxyMode() (mode string, known bool) {
	if s.proxy == nil {
		return "", false
	}
	for _, key := range slices.Sorted(maps.Keys(s.proxy.Data)) { // there are others, such as a kubeconfig
		var config struct {
			Kind string `yaml:"kind"`
			Mode string `yaml:"mode"`
		}
		if yaml.Unmarshal([]byte(s.proxy.Data[key]), &config) == nil && config.Kind == "KubeProxyConfiguration" {
			return config.Mode, true
		}
	}
	return "", false
}

// ciliumTunnel returns by which tunnel Cilium carries packets between nodes; "" if its settings do not say
// (install/kubernetes/cilium/templates/cilium-configmap.yaml of cilium/cilium; "tunnel" up to version 1.13).
func ciliumTunnel(data map[string]string) string {
	switch mode := data["routing-mode"]; mode {
	case "native": // tunnel-protocol is then what else it may need one for
		return none
	case "":
	case "tunnel":
		return data["tunnel-protocol"]
	default:
		return strings.TrimSpace(mode + " " + data["tunnel-protocol"])
	}
	if data["tunnel"] == "disabled" {
		return none
	}
	return data["tunnel"]
}

// Values of facts.
const (
	none = "none"
	off  = "off"
)

// ciliumEncryption returns what encrypts packets between nodes: without a setting, nothing does.
func ciliumEncryption(data map[string]string) string {
	switch {
	case data["enable-wireguard"] == "true":
		return "wireguard"
	case data["enable-ipsec"] == "true":
		return "ipsec"
	}
	return off
}

// ciliumReplaces says whether Cilium does what kube-proxy does: "strict" up to version 1.13.
func ciliumReplaces(data map[string]string) bool {
	return slices.Contains([]string{"true", "strict"}, data["kube-proxy-replacement"])
}

// tunnel returns by which tunnels Calico carries packets between nodes; "" if it gives no addresses.
func (p poolList) tunnel() string {
	var list []string
	for _, pool := range p.Items {
		if pool.Spec.Disabled {
			continue
		}
		found := none
		for _, t := range []struct{ name, mode string }{{"ipip", pool.Spec.IPIP}, {"vxlan", pool.Spec.VXLAN}} {
			switch t.mode {
			case "Always":
				found = t.name
			case "CrossSubnet":
				found = t.name + " between subnets"
			}
		}
		if !slices.Contains(list, found) {
			list = append(list, found)
		}
	}
	return strings.Join(list, ", ")
}

// encryption returns what encrypts packets between nodes.
func (f felix) encryption() string {
	switch {
	case f.Spec.WireGuard4 && f.Spec.WireGuard6:
		return "wireguard"
	case f.Spec.WireGuard4:
		return "wireguard for ipv4"
	case f.Spec.WireGuard6:
		return "wireguard for ipv6"
	}
	return off
}

// flannelBackend returns how flannel carries packets between nodes, and what encrypts them; "" if that is not known
// (Documentation/backends.md of flannel-io/flannel).
func flannelBackend(data map[string]string) (tunnel, encryption string) {
	var config struct {
		Backend struct {
			Type string `json:"Type"`
		} `json:"Backend"`
	}
	if json.Unmarshal([]byte(data["net-conf.json"]), &config) != nil {
		return "", ""
	}
	switch t := config.Backend.Type; t {
	case "host-gw", "alloc":
		return none, off
	case "vxlan", "ipip", "udp":
		return t, off
	case "wireguard", "ipsec":
		return t, t
	default:
		return t, ""
	}
}

// A nodeObject is what the API tells of a node.
type nodeObject struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"` // kubectl cordon, kubectl drain
	} `json:"spec"`
	Status struct {
		Info struct {
			Runtime string `json:"containerRuntimeVersion"` // "containerd://1.7.28"
			Kubelet string `json:"kubeletVersion"`
			System  string `json:"osImage"`
		} `json:"nodeInfo"`
		Room struct {
			Pods string `json:"pods"` // "110"
		} `json:"allocatable"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// readNode reads what the cluster says of a node, as facts, and how many pods may be on it; none if the user may not.
func (d *Deployment) readNode(ctx context.Context, name string) (facts map[string]any, room int) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	n := fetch[nodeObject](ctx, d, core+"/nodes/"+url.PathEscape(name))
	if n == nil {
		return nil, 0
	}
	room, _ = strconv.Atoi(n.Status.Room.Pods)
	return n.facts(), room
}

// facts are what the object says. The labels are those of cloud providers
// (https://kubernetes.io/docs/reference/labels-annotations-taints).
func (n nodeObject) facts() map[string]any {
	all := map[string]any{}
	for fact, value := range map[string]string{
		"container_runtime": strings.Replace(n.Status.Info.Runtime, "://", " ", 1),
		"kubelet":           n.Status.Info.Kubelet,
		"os_image":          n.Status.Info.System,
		"instance_type":     n.Metadata.Labels["node.kubernetes.io/instance-type"],
		"zone":              n.Metadata.Labels["topology.kubernetes.io/zone"],
	} {
		if value != "" {
			all[fact] = value
		}
	}
	return all
}

// leastMTU returns the least MTU in bytes of links by which packets leave a pod, 0 if there is none.
func leastMTU(links []worker.Link) (mtu int) {
	for _, l := range links {
		for _, a := range l.Addresses {
			if a.IsGlobalUnicast() && (mtu == 0 || l.Longest() < mtu) {
				mtu = l.Longest()
			}
		}
	}
	return mtu
}
