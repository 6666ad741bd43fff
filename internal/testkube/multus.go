package testkube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nettoll/nettoll/internal/testprogram"
)

// Across is the name of a network of CNI that joins pods of all nodes of a cluster with Multus: the configuration is a
// file of each node, as the addresses that it gives are. A NetworkAttachmentDefinition of that name has none.
const Across = "across"

// multusProgram is where a node has the binary of Multus.
const multusProgram = "/run/multus"

// multusVersion is the release that multus/go.mod names. Building it took minutes on two CPUs that had other work, too.
const multusVersion = "v4.2.2"

func multus() testprogram.Program {
	return testprogram.Program{
		Folder: home + "/multus", Package: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus", Cache: cache,
		File: "multus-", What: "the CNI plugin multus", Minutes: "three minutes", Linking: "-s -w", Version: multusVersion,
	}
}

// prepareMultus makes the kind NetworkAttachmentDefinition, as the Kubernetes Network Custom Resource Definition
// De-facto Standard has it, version 1.3.
func (c *Cluster) prepareMultus(ctx context.Context) error {
	const name = "network-attachment-definitions.k8s.cni.cncf.io"
	text, err := json.Marshal(object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": name},
		"spec": object{
			"group": "k8s.cni.cncf.io", "scope": "Namespaced",
			"names": object{
				"plural": "network-attachment-definitions", "singular": "network-attachment-definition",
				"kind": "NetworkAttachmentDefinition", "shortNames": []string{"net-attach-def"},
			},
			"versions": []object{{
				"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{
					"type": "object", "properties": object{"spec": object{
						"type": "object", "properties": object{"config": object{"type": "string"}},
					}},
				}},
			}},
		},
	})
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, string(text)); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "wait", "--for=condition=Established", "crd/"+name, "--timeout=60s")
	return err
}

// furnishMultus writes the files of Multus on the node.
func (n *Node) furnishMultus() error {
	c, m := n.cluster, n.machine
	if err := c.writeConfig(c.file(controlName, admin), filepath.Join(m.dir, "multus.kubeconfig")); err != nil {
		return err
	}
	text, err := json.MarshalIndent(n.across(), "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Join(m.dir, "networks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, Across+".conf"), text, 0o600)
}

// across is the configuration of the network [Across]: macvlan at the underlay, with addresses of the node's own part
// of a range.
func (n *Node) across() object {
	return object{
		"cniVersion": "0.4.0", "name": Across, "type": "macvlan", "master": "eth0", "mode": "bridge",
		"ipam": object{"type": "host-local", "ranges": [][]object{
			{{
				"subnet": "10.245.0.0/16", "rangeStart": fmt.Sprintf("10.245.%d.10", n.number),
				"rangeEnd": fmt.Sprintf("10.245.%d.250", n.number),
			}},
			{{
				"subnet": "fd00:10:245::/64", "rangeStart": fmt.Sprintf("fd00:10:245::%d:10", n.number),
				"rangeEnd": fmt.Sprintf("fd00:10:245::%d:ff", n.number),
			}},
		}},
	}
}

// multusConflist is the configuration of Multus, which has another one join pods first.
func multusConflist(first object) object {
	return object{"cniVersion": "0.4.0", "name": "multus", "plugins": []object{{
		"type": "multus", "kubeconfig": inside + "/multus.kubeconfig", "delegates": []object{first},
		"confDir": inside + "/networks", "binDir": inside + "/plugins", "cniDir": "/var/lib/cni/multus",
		"logFile": inside + "/multus.log", "logLevel": "error",
	}}}
}
