package testkube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// Options describe a cluster.
type Options struct {
	// Nodes is the number of nodes, at most 9; 0 means 2. [None] is a control plane alone.
	Nodes int
	// Network is how pods are joined: [Bridge], which "" means, [Calico], which enforces NetworkPolicy, [Admin], which
	// also enforces AdminNetworkPolicy, [Flannel], [FlannelRoutes] or [Cilium].
	Network string
	// Multus gives pods further interfaces, by NetworkAttachmentDefinitions. It is built in addition, once.
	Multus bool
	// Proxy starts kube-proxy on every node: services have addresses that work.
	Proxy bool
	// Fake is the number of fake nodes, which kwok plays: their pods run as soon as they are scheduled, and no process is
	// in them. What is executed in one is a process of the control plane. The cluster then has no other nodes. Kwok is
	// built in addition, once.
	Fake int
	// Images are what pods can be made of. They are on every node.
	Images []Image
	// Say is called with what takes more than two seconds; nil for nobody.
	Say func(string)
}

// None is the number of nodes of a control plane alone, for [Options].
const None = -1

// A Cluster is a control plane and nodes.
type Cluster struct {
	options Options
	dir     string // with a directory for each machine, and the files of the authority
	lock    *os.File
	binary  string
	policy  string // the binary with the programs of Calico; "" for none
	multus  string // that of Multus; "" for none
	judge   string // that of kube-network-policies; "" for none
	faker   string // that of kwok; "" for none
	plugin  string // that of the plugin of a provider; "" for none
	ca      *authority
	control *machine
	bridge  int // the underlay, in the control plane
	nodes   []*Node
}

// The names and addresses of a cluster. The underlay has the range that is reserved for benchmarks (RFC 2544, section
// C.2.2), as underlays of labs have.
const (
	controlName = "control"
	underlay    = "underlay"
	bits4       = 16
	bits6       = 48
	apiPort     = 6443
	services    = "10.96.0.0/16,fd00:10:96::/112"
	pods        = "10.244.0.0/16,fd00:10:244::/48" // of all nodes
	// most is the largest number of nodes.
	most = 9
)

func control4() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, 1}) }
func control6() netip.Addr { return netip.MustParseAddr("fd00:198:18::1") }

// server is the URL of the API server, on the underlay.
func server() string { return "https://" + netip.AddrPortFrom(control4(), apiPort).String() }

// Start starts a cluster and returns when its nodes are ready. It first removes what clusters have left whose processes
// were killed. If this machine lacks something that it needs, the error is a [linux.UnsupportedError].
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Fake < 0 || o.Fake > mostFakes || o.Fake > 0 && o.Nodes > 0 {
		return nil, fmt.Errorf("invalid number of fake nodes %d (valid: 0 to %d, and no others)", o.Fake, mostFakes)
	}
	switch {
	case o.Nodes == None, o.Fake > 0:
		o.Nodes = 0
	default:
		o.Nodes = cmp.Or(o.Nodes, 2)
	}
	if o.Nodes < 0 || o.Nodes > most {
		return nil, fmt.Errorf("invalid number of nodes %d (valid: 1 to %d)", o.Nodes, most)
	}
	o.Network = cmp.Or(o.Network, Bridge)
	if !slices.Contains(networks(), o.Network) {
		return nil, fmt.Errorf("invalid network %q (valid: %s)", o.Network, strings.Join(networks(), ", "))
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if err := MissingFor(o.Network); err != nil {
		return nil, err
	}
	c := &Cluster{options: o}
	if c.binary, err = Build(ctx, o.Say); err != nil {
		return nil, err
	}
	if o.Network == Calico {
		if c.policy, err = policies().Build(ctx, o.Say); err != nil {
			return nil, err
		}
	}
	if o.Network == Admin {
		if c.judge, err = judges().Build(ctx, o.Say); err != nil {
			return nil, err
		}
	}
	if err := c.buildProvider(ctx); err != nil {
		return nil, err
	}
	if o.Multus {
		if c.multus, err = multus().Build(ctx, o.Say); err != nil {
			return nil, err
		}
	}
	if o.Fake > 0 {
		if c.faker, err = fakers().Build(ctx, o.Say); err != nil {
			return nil, err
		}
	}
	if err := Clean(); err != nil {
		return nil, err
	}
	if c.dir, c.lock, err = newDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start a cluster: %w\n%s", err, c.Logs(5)), c.Stop())
		}
	}()
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) begin(ctx context.Context) error {
	if err := c.issue(); err != nil {
		return err
	}
	group, within := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startControl(within) })
	group.Go(func() error { return c.writeImages(within) })
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range c.options.Nodes {
		c.nodes = append(c.nodes, c.newNode(i+1))
	}
	if err := c.announce(ctx); err != nil {
		return err
	}
	if err := c.publishProxyConfig(ctx); err != nil {
		return err
	}
	if c.options.Network == Admin { // the judges of nodes ask for these kinds ever more rarely
		if err := c.prepareAdmin(ctx); err != nil {
			return err
		}
	}
	if p := c.options.provider(); p != nil {
		if err := p.prepare(ctx, c); err != nil {
			return err
		}
	}
	group, within = errgroup.WithContext(ctx)
	if c.options.Network == Calico {
		group.Go(func() error { return c.prepareCalico(within) })
	}
	if c.options.Multus {
		group.Go(func() error { return c.prepareMultus(within) })
	}
	for _, n := range c.nodes {
		group.Go(func() error { return n.start(within) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.fakeNodes(ctx); err != nil {
		return err
	}
	if len(c.nodes) > 0 {
		if _, err := c.Kubectl(ctx, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s"); err != nil {
			return err
		}
	}
	return c.until(ctx, "the service account of pods", func() error {
		_, err := c.Kubectl(ctx, "get", "serviceaccount", "default")
		return err
	})
}

// announce makes the objects of nodes, with the ranges of their pods. Kubelets take them over.
func (c *Cluster) announce(ctx context.Context) error {
	if len(c.nodes) == 0 {
		return nil
	}
	var items []object
	for _, n := range c.nodes {
		var ranges []string
		for _, r := range n.Pods() {
			ranges = append(ranges, r.String())
		}
		items = append(items, object{
			"apiVersion": "v1", "kind": "Node", "metadata": object{"name": n.Name()},
			"spec": object{"podCIDR": ranges[0], "podCIDRs": ranges},
		})
	}
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return err
	}
	return c.Apply(ctx, string(text))
}

// publishProxyConfig stores the configuration of kube-proxy in the cluster, where kubeadm does
// (cmd/kubeadm/app/phases/addons/proxy of k8s.io/kubernetes). Nodes have files of their own.
func (c *Cluster) publishProxyConfig(ctx context.Context) error {
	if !c.options.Proxy || len(c.nodes) == 0 {
		return nil
	}
	config, err := json.Marshal(c.nodes[0].proxyConfig())
	if err != nil {
		return err
	}
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": proxy, "namespace": "kube-system"},
		"data": object{"config.conf": string(config)},
	})
	if err != nil {
		return err
	}
	return c.Apply(ctx, string(text))
}

// issue makes the certificates of the control plane, in its directory.
func (c *Cluster) issue() error {
	dir := c.file(controlName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	var err error
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), c.ca.pem, 0o600); err != nil {
		return err
	}
	for name, who := range map[string]subject{
		apiServer: {
			user: "kube-apiserver", names: []string{"localhost", "kubernetes.default.svc"},
			addresses: []netip.Addr{
				netip.AddrFrom4([4]byte{127, 0, 0, 1}), control4(), control6(), netip.MustParseAddr("10.96.0.1"),
			},
		},
		"kubelet-client": {user: "kube-apiserver-kubelet-client", group: "system:masters"},
		admin:            {user: admin, group: "system:masters"},
		controllers:      {user: "system:kube-controller-manager"},
		scheduler:        {user: "system:kube-scheduler"},
		proxy:            {user: "system:kube-proxy"},
	} {
		path := filepath.Join(dir, name)
		if err := c.ca.issue(path, who); err != nil {
			return err
		}
		if err := c.writeConfig(path, path+".kubeconfig"); err != nil {
			return err
		}
	}
	return issueKeys(filepath.Join(dir, "accounts"))
}

// The programs of a cluster, and the name of the files of its administrator.
const (
	etcd        = "etcd"
	apiServer   = "kube-apiserver"
	controllers = "kube-controller-manager"
	scheduler   = "kube-scheduler"
	kubelet     = "kubelet"
	proxy       = "kube-proxy"
	kubectl     = "kubectl"
	containerd  = "containerd"
	admin       = "admin"
)

// writeConfig writes the kubeconfig of the files of a certificate.
func (c *Cluster) writeConfig(path, to string) error {
	text, err := c.ca.kubeconfig(path, server())
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// startControl starts the control plane.
func (c *Cluster) startControl(ctx context.Context) error {
	m := &machine{name: controlName, dir: c.file(controlName)}
	c.control = m
	if err := m.start(ctx, c.binary, c.controlSpec()); err != nil {
		return err
	}
	if err := netns.Do(int(m.net.Fd()), c.makeUnderlay); err != nil {
		return err
	}
	if err := m.kube(ctx, etcd, "--data-dir="+inside+"/etcd", "--listen-client-urls="+etcdURL,
		"--advertise-client-urls="+etcdURL, "--listen-peer-urls=http://127.0.0.1:2380", "--unsafe-no-fsync",
		"--log-level=warn"); err != nil {
		return err
	}
	if err := c.startServer(ctx); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		controllers: {
			"--root-ca-file=" + inside + "/ca.crt", "--service-account-private-key-file=" + inside + "/accounts.key",
			"--use-service-account-credentials",
			// A node that does not answer is soon known not to be ready; kubelets say that they live every two seconds.
			"--node-monitor-period=1s", "--node-monitor-grace-period=10s",
		},
		scheduler: nil,
	} {
		config := inside + "/" + name + ".kubeconfig"
		if err := m.kube(ctx, name, append([]string{
			"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
			"--leader-elect=false", "--bind-address=127.0.0.1",
		}, append(args, c.hurried(name)...)...)...); err != nil {
			return err
		}
	}
	return nil
}

// etcdURL is where etcd listens, in the network namespace of the control plane.
const etcdURL = "http://127.0.0.1:2379"

// makeUnderlay makes the bridge that joins all machines.
func (c *Cluster) makeUnderlay() error {
	h, err := link.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	if c.bridge, err = h.AddBridge(link.Bridge{Name: underlay}); err != nil {
		return err
	}
	lo, err := h.ByName("lo")
	if err != nil {
		return err
	}
	return errors.Join(
		h.SetUp(lo.Index, true), h.SetUp(c.bridge, true),
		h.AddAddress(c.bridge, netip.PrefixFrom(control4(), bits4)),
		h.AddAddress(c.bridge, netip.PrefixFrom(control6(), bits6)),
	)
}

// startServer starts the API server and waits until it is ready.
func (c *Cluster) startServer(ctx context.Context) error {
	if err := c.control.kube(ctx, apiServer, "--etcd-servers="+etcdURL, "--bind-address=::",
		"--advertise-address="+control4().String(), fmt.Sprintf("--secure-port=%d", apiPort),
		"--tls-cert-file="+inside+"/kube-apiserver.crt", "--tls-private-key-file="+inside+"/kube-apiserver.key",
		"--client-ca-file="+inside+"/ca.crt", "--service-cluster-ip-range="+services,
		"--service-account-key-file="+inside+"/accounts.pub", "--service-account-signing-key-file="+inside+"/accounts.key",
		"--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--kubelet-certificate-authority="+inside+"/ca.crt",
		"--kubelet-client-certificate="+inside+"/kubelet-client.crt", "--kubelet-client-key="+inside+"/kubelet-client.key",
		"--kubelet-preferred-address-types=InternalIP"); err != nil {
		return err
	}
	return c.until(ctx, "the API server", func() error {
		for _, name := range []string{etcd, apiServer} {
			if err := c.control.alive(ctx, name); err != nil {
				return final{err}
			}
		}
		_, err := c.Kubectl(ctx, "get", "--raw=/readyz")
		return err
	})
}

// RestartServer kills the API server, starts it again and waits until it is ready.
func (c *Cluster) RestartServer(ctx context.Context) error {
	if err := c.control.kill(ctx, apiServer); err != nil {
		return err
	}
	return c.startServer(ctx)
}

// patience is how long anything of a cluster may take that is waited for.
const patience = 90 * time.Second

// final is an error that another try does not help.
type final struct{ error }

// until calls f until it returns nil, or for patience.
func (c *Cluster) until(ctx context.Context, what string, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		if last, ok := errors.AsType[final](err); ok {
			return last.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; the last try: %w", what, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Nodes returns the nodes, in the order of their names: n1, n2, ….
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Dir returns the directory of the cluster, with one for each machine that has the logs of its daemons: NAME.log. It is
// removed by [Cluster.Stop].
func (c *Cluster) Dir() string { return c.dir }

// file is a path in the directory of the cluster.
func (c *Cluster) file(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// Stop ends all processes of the cluster and removes all that there was of it. It may be called again.
func (c *Cluster) Stop() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Stop())
	}
	if c.control != nil {
		errs = append(errs, c.control.stop())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop a cluster: %w", err)
	}
	if c.lock != nil {
		if err := errors.Join(os.RemoveAll(c.dir), c.lock.Close()); err != nil {
			return fmt.Errorf("stop a cluster: %w", err)
		}
		c.lock = nil
	}
	return nil
}

// writeImages writes the archives of images, pause among them.
func (c *Cluster) writeImages(ctx context.Context) error {
	dir := c.file("images")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	binary := filepath.Join(dir, "pause")
	if err := Program(ctx, "./internal/testkube/pause", binary); err != nil {
		return err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	images := append([]Image{
		{Name: pauseImage, Files: map[string]string{"/pause": binary}, Entrypoint: []string{"/pause"}},
		{Name: Shell, Files: map[string]string{"/bin/busybox": busybox}, Entrypoint: []string{"/bin/busybox"}},
	}, c.options.Images...)
	for i, image := range images {
		if err := image.write(filepath.Join(dir, fmt.Sprintf("%d.tar", i))); err != nil {
			return fmt.Errorf("write image %q: %w", image.Name, err)
		}
	}
	return os.Remove(binary)
}

// Shell is the name of an image with a shell: its entrypoint is busybox, whose first argument is a command.
const Shell = "nettoll/shell:" + version

// pauseImage is the name of the image of a pod's sandbox.
const pauseImage = "nettoll/pause:" + version
