package testkube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// A Node is a node of a cluster.
type Node struct {
	cluster *Cluster
	number  int
	machine *machine
}

// newNode is a node that has not been started.
func (c *Cluster) newNode(number int) *Node {
	name := fmt.Sprintf("n%d", number)
	return &Node{cluster: c, number: number, machine: &machine{
		name: name, dir: c.file(name), cgroup: groupPrefix + filepath.Base(c.dir) + "-" + name,
	}}
}

// Name returns its name, which is that of the object in Kubernetes.
func (n *Node) Name() string { return n.machine.name }

// Addresses returns its addresses on the underlay, of IPv4 and IPv6.
func (n *Node) Addresses() [2]netip.Addr {
	v4, v6 := control4().As4(), control6().As16()
	v4[3], v6[15] = byte(10+n.number), byte(10+n.number)
	return [2]netip.Addr{netip.AddrFrom4(v4), netip.AddrFrom16(v6)}
}

// Pods returns the ranges of its pods, of IPv4 and IPv6.
func (n *Node) Pods() [2]netip.Prefix {
	v6 := netip.MustParseAddr("fd00:10:244::").As16()
	v6[7] = byte(n.number)
	return [2]netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n.number), 0}), 24),
		netip.PrefixFrom(netip.AddrFrom16(v6), 64),
	}
}

// start starts the node, and returns when its kubelet runs.
func (n *Node) start(ctx context.Context) error {
	c, m := n.cluster, n.machine
	if err := n.furnish(ctx); err != nil {
		return err
	}
	binds := []process.Bind{
		{From: filepath.Join(m.dir, "var"), To: "/var"}, {From: c.file("images"), To: images},
	}
	if c.policy != "" {
		binds = append(binds, process.Bind{From: c.policy, To: policyProgram})
	}
	if c.judge != "" {
		binds = append(binds, process.Bind{From: c.judge, To: judgeProgram})
	}
	if c.plugin != "" {
		binds = append(binds, process.Bind{From: c.plugin, To: pluginProgram})
	}
	if c.multus != "" {
		binds = append(binds, process.Bind{From: c.multus, To: multusProgram})
	}
	if err := m.start(ctx, c.binary, spec{
		Node: process.Node{
			Binds: binds,
			// What the kubelet sets for its machine (pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables).
			Settings: []string{
				"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
				"kernel/keys/root_maxbytes",
			},
		},
		Sysctls: map[string]string{"net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1"},
	}); err != nil {
		return err
	}
	if err := n.join(); err != nil {
		return err
	}
	if c.policy != "" {
		if err := n.startFelix(ctx); err != nil {
			return err
		}
	}
	if c.judge != "" {
		if err := n.startJudge(ctx); err != nil {
			return err
		}
	}
	if err := m.daemon(ctx, containerd, containerd, "--config", inside+"/containerd.toml"); err != nil {
		return err
	}
	if err := c.until(ctx, "containerd on "+m.name, func() error {
		if err := m.alive(ctx, containerd); err != nil {
			return final{err}
		}
		_, err := m.run(ctx, "ctr", "version")
		return err
	}); err != nil {
		return err
	}
	archives, err := filepath.Glob(c.file("images", "*.tar"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		at := images + "/" + filepath.Base(archive)
		if _, err := m.run(ctx, "ctr", "--namespace", "k8s.io", "images", "import", at); err != nil {
			return err
		}
	}
	if p := c.options.provider(); p != nil && p.begin != nil {
		if err := p.begin(ctx, n); err != nil {
			return err
		}
	}
	if err := n.StartKubelet(ctx); err != nil {
		return err
	}
	if c.options.Proxy {
		if err := m.kube(ctx, proxy, "--config="+inside+"/kube-proxy.yaml"); err != nil {
			return err
		}
	}
	if c.policy != "" {
		return n.waitForFelix(ctx)
	}
	if c.judge != "" {
		return n.waitForJudge(ctx)
	}
	return n.waitForProvider(ctx)
}

// furnish writes the files of the node, those that are there too.
func (n *Node) furnish(ctx context.Context) error {
	c, m := n.cluster, n.machine
	for _, dir := range []string{
		"var/lib/kubelet", "var/lib/containerd", "var/lib/cni", "var/log/pods", "var/log/containers", "var/tmp", "cni",
	} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(m.dir, "var/run")); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	addresses := n.Addresses()
	path := filepath.Join(m.dir, kubelet)
	if err := c.ca.issue(path, subject{
		user: "system:node:" + m.name, group: "system:nodes", names: []string{m.name}, addresses: addresses[:],
	}); err != nil {
		return err
	}
	if err := c.writeConfig(path, path+".kubeconfig"); err != nil {
		return err
	}
	if err := c.writeConfig(c.file(controlName, proxy), filepath.Join(m.dir, proxy+".kubeconfig")); err != nil {
		return err
	}
	plugins, err := pluginDir()
	if err != nil {
		return err
	}
	if c.policy != "" {
		if err := n.furnishCalico(); err != nil {
			return err
		}
	}
	if c.judge != "" {
		if err := c.writeConfig(c.file(controlName, admin), filepath.Join(m.dir, judge+".kubeconfig")); err != nil {
			return err
		}
	}
	if p := c.options.provider(); p != nil {
		if err := p.furnish(ctx, n); err != nil {
			return err
		}
	}
	if c.multus != "" {
		if err := n.furnishMultus(); err != nil {
			return err
		}
	}
	if c.policy != "" || c.plugin != "" || c.multus != "" {
		if err := n.furnishPlugins(plugins); err != nil {
			return err
		}
		plugins = inside + "/plugins"
	}
	for name, content := range map[string]any{
		"kubelet.yaml": n.kubeletConfig(), "kube-proxy.yaml": n.proxyConfig(), "cni/10-pods.conflist": n.conflist(),
	} {
		text, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(m.dir, name), text, 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(m.dir, "ca.crt"), c.ca.pem, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, "containerd.toml"), []byte(containerdConfig(plugins)), 0o600)
}

// containerdConfig is the configuration of containerd (containerd-config.toml(5)).
func containerdConfig(plugins string) string {
	const runtime = "io.containerd.grpc.v1.cri"
	var unused []string
	for _, store := range []string{"aufs", "btrfs", "devmapper", "zfs"} {
		unused = append(unused, fmt.Sprintf("%q", "io.containerd.snapshotter.v1."+store))
	}
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [%[1]s]
[grpc]
address = %[2]q
[plugins.%[3]q]
sandbox_image = %[4]q
restrict_oom_score_adj = true
[plugins.%[3]q.cni]
bin_dir = %[5]q
conf_dir = "%[6]s/cni"
[plugins.%[3]q.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.%[3]q.containerd.runtimes.runc.options]
SystemdCgroup = false
`, strings.Join(unused, ", "), containerdSocket, runtime, "docker.io/"+pauseImage, plugins, inside)
}

const containerdSocket = "/run/containerd/containerd.sock" // where ctr expects it

type object = map[string]any

// kubeletConfig is the configuration of the kubelet (kubelet.config.k8s.io/v1beta1).
func (n *Node) kubeletConfig() object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": inside + "/ca.crt"},
		},
		"authorization": object{"mode": "Webhook"},
		"tlsCertFile":   inside + "/kubelet.crt", "tlsPrivateKeyFile": inside + "/kubelet.key",
		"failSwapOn": false, "resolvConf": "", "volumePluginDir": "/var/lib/kubelet/volumeplugins",
		// The disk is that of the machine: how full it is does not matter here.
		"evictionHard": object{
			"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
		"nodeStatusUpdateFrequency":   "2s", "nodeLeaseDurationSeconds": 8, "syncFrequency": "5s",
		// Pods of tests end when they are told to.
		"shutdownGracePeriod": "0s",
	}
}

// proxyConfig is the configuration of kube-proxy (kubeproxy.config.k8s.io/v1alpha1).
func (n *Node) proxyConfig() object {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
		"clientConnection": object{"kubeconfig": inside + "/kube-proxy.kubeconfig"},
		"clusterCIDR":      pods, "hostnameOverride": n.Name(),
		// Limits of connection tracking are those of the machine, which a namespace cannot set.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

// conflist is the configuration of the network, whose pods have addresses of the node's ranges.
func (n *Node) conflist() object {
	var ranges [][]object
	for _, p := range n.Pods() {
		ranges = append(ranges, []object{{"subnet": p.String()}})
	}
	ipam := object{
		"type": "host-local", "ranges": ranges, "routes": []object{{"dst": "0.0.0.0/0"}, {"dst": "::/0"}},
	}
	conf := object{"cniVersion": "0.4.0", "name": "pods", "plugins": []object{{
		"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": ipam,
	}}}
	if n.cluster.policy != "" {
		conf = n.calicoConflist(ipam)
	}
	if n.cluster.judge != "" { // a bridge does not show the packets between its pods to netfilter of the node
		conf["plugins"] = []object{{"type": "ptp", "ipam": ipam}}
	}
	if p := n.cluster.options.provider(); p != nil {
		conf = p.conflist
	}
	if n.cluster.multus != "" {
		return multusConflist(conf)
	}
	return conf
}

// join joins the node to the underlay, with a route to the pods of each other node, unless a daemon makes them.
func (n *Node) join() error {
	c, addresses := n.cluster, n.Addresses()
	if err := netns.Do(int(c.control.net.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		// Of a node that was stopped, the kernel removes it in the background.
		if old, err := h.ByName(n.Name()); err == nil {
			if err := h.Delete(old.Index); err != nil {
				return err
			}
		}
		// A node that starts again has the MAC address that others know.
		mac := net.HardwareAddr{2, 0, 0, 0, 0, byte(n.number)}
		_, err = h.AddVeth(link.Veth{
			Name: n.Name(), Master: c.bridge, PeerName: "eth0", PeerMAC: mac, PeerNS: n.machine.net,
		})
		return err
	}); err != nil {
		return err
	}
	return netns.Do(int(n.machine.net.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		eth0, err := h.ByName("eth0")
		if err != nil {
			return err
		}
		if err := errors.Join(
			h.SetUp(lo.Index, true), h.SetUp(eth0.Index, true),
			h.AddAddress(eth0.Index, netip.PrefixFrom(addresses[0], bits4)),
			h.AddAddress(eth0.Index, netip.PrefixFrom(addresses[1], bits6)),
			// Kubernetes finds the address of a node by its default route.
			h.AddRoute(link.Route{To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: control4(), Link: eth0.Index}),
			h.AddRoute(link.Route{To: netip.PrefixFrom(netip.IPv6Unspecified(), 0), Via: control6(), Link: eth0.Index}),
		); err != nil {
			return err
		}
		for _, other := range c.nodes {
			if other == n || c.options.provider() != nil { // its daemon makes them
				continue
			}
			for i, via := range other.Addresses() {
				if err := h.AddRoute(link.Route{To: other.Pods()[i], Via: via, Link: eth0.Index}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// StartKubelet starts the kubelet, after [Node.KillKubelet].
func (n *Node) StartKubelet(ctx context.Context) error {
	addresses := n.Addresses()
	return n.machine.kube(ctx, kubelet, "--config="+inside+"/kubelet.yaml", "--kubeconfig="+inside+"/kubelet.kubeconfig",
		"--hostname-override="+n.Name(), fmt.Sprintf("--node-ip=%s,%s", addresses[0], addresses[1]),
		"--root-dir=/var/lib/kubelet", "--v=2")
}

// KillKubelet kills the kubelet. Its pods go on.
func (n *Node) KillKubelet(ctx context.Context) error { return n.machine.kill(ctx, kubelet) }

// Stop ends the node with all its processes, as if its power failed. It may be called again.
func (n *Node) Stop() error { return n.machine.stop() }

// Start starts the node after [Node.Stop], with the files that it had.
func (n *Node) Start(ctx context.Context) error { return n.start(ctx) }

// Run runs a command on the node, such as ip or ctr, and returns what it writes.
func (n *Node) Run(ctx context.Context, args ...string) (string, error) {
	return n.machine.run(ctx, args...)
}
