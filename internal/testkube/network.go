package testkube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testprogram"
)

// Networks are how pods are joined, for [Options.Network].
const (
	// Bridge joins the pods of a node to a bridge. NetworkPolicy has no effect.
	Bridge = "bridge"
	// Calico routes to each pod, and enforces NetworkPolicy on its node: Calico's CNI plugin and its daemon Felix, with
	// the addresses and the routes between nodes that Bridge has. What it takes is built in addition, once.
	Calico = "calico"
	// Admin routes to each pod (CNI plugin ptp), and enforces AdminNetworkPolicy and NetworkPolicy on its node by
	// kube-network-policies, the reference implementation of SIG Network. It is built in addition, once.
	Admin = "admin"
	// Flannel joins the pods of a node to a bridge, and nodes by VXLAN, in IPv4 only: the CNI plugin and the daemon of
	// flannel. NetworkPolicy has no effect. It is built in addition, once.
	Flannel = "flannel"
	// FlannelRoutes is the same with routes instead of VXLAN (backend host-gw).
	FlannelRoutes = "flannel-host-gw"
	// Cilium joins pods by eBPF programs, and nodes by VXLAN, and enforces NetworkPolicy on its node: Cilium's CNI plugin
	// and its agent, beside kube-proxy. What it takes is built in addition, once.
	Cilium = "cilium"
)

// networks lists the networks.
func networks() []string { return []string{Bridge, Calico, Admin, Flannel, FlannelRoutes, Cilium} }

// The daemon of Calico, and where a node has the binary with its programs.
const (
	felix         = "felix"
	policyProgram = "/run/policy"
)

// policies is the binary of Calico. Building it took three and a half minutes on two CPUs that had other work, too.
func policies() testprogram.Program {
	return testprogram.Program{
		Folder: home + "/policy", Package: ".", Cache: cache, File: "policy-", What: "the programs of Calico",
		Minutes: "five minutes", Linking: "-s -w", Version: version,
	}
}

// MissingFor is [Missing] for a cluster with a network.
func MissingFor(network string) error {
	if err := Missing(); err != nil {
		return err
	}
	if p := (Options{Network: network}).provider(); p != nil {
		return p.missing()
	}
	switch network {
	case Admin:
		return missingQueue()
	case Bridge, "":
		return nil
	}
	for _, name := range []string{"ipset", "conntrack"} { // Felix starts them
		if _, err := exec.LookPath(name); err != nil {
			return &linux.UnsupportedError{
				What:    "start a Kubernetes cluster that enforces NetworkPolicy",
				Missing: fmt.Sprintf("program %q", name), Hint: "apt-get install " + name, Err: err,
			}
		}
	}
	return nil
}

// prepareCalico makes the kinds of objects that Calico reads, and says that they are complete.
func (c *Cluster) prepareCalico(ctx context.Context) error {
	// They are part of the module, and no package has them.
	source, err := moduleDir(ctx, policies().Folder, "github.com/projectcalico/calico")
	if err != nil {
		return err
	}
	kinds := filepath.Join(source, "libcalico-go", "config", "crd")
	if err := c.define(ctx, kinds); err != nil {
		return err
	}
	return c.Apply(ctx, `{"apiVersion": "crd.projectcalico.org/v1", "kind": "ClusterInformation",
		"metadata": {"name": "default"}, "spec": {"clusterType": "k8s", "datastoreReady": true}}`)
}

// moduleDir returns the folder of the source of a module that one of ours requires.
func moduleDir(ctx context.Context, folder, name string) (string, error) {
	dir, _, err := testprogram.Source(ctx, folder)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", name)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w: %s%s", name, err, text, said.Bytes())
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		return "", fmt.Errorf("find the source of %s: %w", name, err)
	}
	return module.Dir, nil
}

// define makes kinds of objects by a file or a folder of files, and waits until the cluster serves them.
func (c *Cluster) define(ctx context.Context, kinds string) error {
	if _, err := c.Kubectl(ctx, "create", "-f", kinds); err != nil {
		return err
	}
	// Kubectl gives up at once on a kind that has no conditions yet.
	return c.until(ctx, "kinds of objects", func() error {
		_, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "crds", "--all", "--timeout=60s")
		return err
	})
}

// statusDir is where Felix writes that an endpoint is protected. The plugin waits for that: a pod has its policies
// before its first container starts. Felix makes it (felix/statusrep), but no directory above it.
const statusDir = "/run/endpoint-status"

// felixConfig is the configuration of Felix.
func (n *Node) felixConfig() string {
	return fmt.Sprintf(`[global]
DatastoreType = kubernetes
FelixHostname = %s
LogFilePath = none
LogSeveritySys = FATAL
LogSeverityScreen = INFO
UsageReportingEnabled = false
XDPEnabled = false
DefaultEndpointToHostAction = ACCEPT
EndpointStatusPathPrefix = %s
HealthEnabled = true
HealthHost = 127.0.0.1
HealthPort = %d
`, n.Name(), filepath.Dir(statusDir), felixHealth)
}

// felixHealth is the port at which Felix says whether it is ready.
const felixHealth = 9099

// furnishCalico writes the files of Calico on the node.
func (n *Node) furnishCalico() error {
	c, m := n.cluster, n.machine
	if err := c.writeConfig(c.file(controlName, admin), filepath.Join(m.dir, "calico.kubeconfig")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, "felix.cfg"), []byte(n.felixConfig()), 0o600)
}

// furnishPlugins makes a directory of all plugins on the node: those of the machine, and those that were built.
func (n *Node) furnishPlugins(machines string) error {
	dir := filepath.Join(n.machine.dir, "plugins")
	if err := os.RemoveAll(dir); err != nil { // of a node that starts again
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	at := map[string]string{"calico": policyProgram, "multus": multusProgram}
	if p := n.cluster.options.provider(); p != nil {
		at[p.pluginName] = pluginProgram
	}
	for _, name := range []string{"bridge", "host-local", "loopback", "macvlan", "ptp"} {
		at[name] = filepath.Join(machines, name)
	}
	for name, path := range at {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// calicoConflist is the configuration of Calico's plugin.
func (n *Node) calicoConflist(ipam object) object {
	return object{"cniVersion": "0.3.1", "name": "pods", "plugins": []object{{
		"type": "calico", "datastore_type": "kubernetes", "nodename": n.Name(), "nodename_file_optional": true,
		"log_level": "info", "log_file_path": inside + "/calico.log", "ipam": ipam,
		"policy": object{"type": "k8s"}, "kubernetes": object{"kubeconfig": inside + "/calico.kubeconfig"},
		"policy_setup_timeout_seconds": 60, "endpoint_status_dir": statusDir,
	}}}
}

// startFelix starts Felix.
func (n *Node) startFelix(ctx context.Context) error {
	return n.machine.daemon(ctx, felix, policyProgram, felix, inside+"/felix.cfg", inside+"/calico.kubeconfig")
}

// waitForFelix returns when Felix has put into the kernel what is known of pods and policies.
func (n *Node) waitForFelix(ctx context.Context) error {
	m := n.machine
	return n.cluster.until(ctx, "Felix on "+m.name, func() error {
		if err := m.alive(ctx, felix); err != nil {
			return final{err}
		}
		_, err := m.run(ctx, "busybox", "wget", "-q", "-O", "-", fmt.Sprintf("http://127.0.0.1:%d/readiness", felixHealth))
		return err
	})
}
