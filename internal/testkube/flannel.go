package testkube

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testcni"
)

// Names of flannel's objects, as its manifest has them (Documentation/kube-flannel.yml of flannel-io/flannel).
const (
	flannelSpace  = "kube-flannel"
	flannelConfig = "kube-flannel-cfg"
	flannelSet    = "kube-flannel-ds"
)

// flannelEnv is where flannel's daemon writes for its plugin which range the node has.
const flannelEnv = "/run/flannel/subnet.env"

// flannel is the network flannel with a backend. It has IPv4 only: the plugin is the last one that the Go module proxy
// has, which knows no other family.
func flannel(backend string) *provider {
	image := "docker.io/flannel-io/flannel:" + testcni.FlanneldVersion
	const path = "/opt/bin/flanneld"
	return &provider{
		daemon: testcni.FlanneldProgram(), plugin: testcni.FlannelPlugin(), image: image, path: path, pluginName: "flannel",
		missing: func() error { return missingFlannel(backend) },
		prepare: func(ctx context.Context, c *Cluster) error {
			config, err := json.Marshal(object{"Network": "10.244.0.0/16", "Backend": object{"Type": backend}})
			if err != nil {
				return err
			}
			return c.applyAll(ctx,
				object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": flannelSpace}},
				object{
					"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": object{"name": flannelConfig, "namespace": flannelSpace},
					"data":     object{"net-conf.json": string(config)},
				},
				daemonSet{
					namespace: flannelSpace, name: flannelSet, image: image, path: path, log: "flanneld.log",
					nodeName: "NODE_NAME",
					args: []string{
						"--kube-subnet-mgr", "--ip-masq", "--kubeconfig-file=" + inside + "/flannel.kubeconfig",
						"--net-config-path=/flannel/net-conf.json",
					},
					config: flannelConfig, configAt: "/flannel",
				}.object())
		},
		furnish: func(_ context.Context, n *Node) error {
			c, m := n.cluster, n.machine
			return c.writeConfig(c.file(controlName, admin), filepath.Join(m.dir, "flannel.kubeconfig"))
		},
		conflist: object{"cniVersion": "0.3.1", "name": "cbr0", "plugins": []object{{
			"type": "flannel", "delegate": object{"hairpinMode": true, "isDefaultGateway": true},
		}}},
		ready: func(ctx context.Context, n *Node) error {
			if _, err := n.machine.run(ctx, "cat", flannelEnv); err != nil {
				return err
			}
			return n.routed(ctx)
		},
	}
}

// missingFlannel returns nil, or what of the kernel flannel lacks here.
func missingFlannel(backend string) error {
	// Flannel's daemon ends without it (main.go).
	if _, err := sysctl.Read("net.bridge.bridge-nf-call-iptables"); errors.Is(err, os.ErrNotExist) {
		return &linux.UnsupportedError{
			What: "start a Kubernetes cluster with flannel", Missing: "br_netfilter (CONFIG_BRIDGE_NETFILTER)",
			Hint: "modprobe br_netfilter", Err: err,
		}
	}
	if backend == "vxlan" {
		return link.CheckKind("vxlan", "use network "+FlannelRoutes+", or a kernel that has it")
	}
	return nil
}
