package testkube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/testprogram"
)

// A provider is a network whose daemon runs in a pod on each node, as the manifests of its project have it. The daemon
// makes the routes between nodes.
type provider struct {
	// daemon and plugin are its programs, which may be one.
	daemon, plugin testprogram.Program
	// image is the name of the image with the daemon, by which others know the network and its version. The daemon is at
	// path there.
	image, path string
	// pluginName is the name by which CNI starts the plugin.
	pluginName string
	// missing returns nil, or a [linux.UnsupportedError] with what this machine lacks for it.
	missing func() error
	// prepare makes the objects of the network before nodes start.
	prepare func(context.Context, *Cluster) error
	// furnish writes files of the node, and begin, if not nil, readies the node before its kubelet starts.
	furnish func(context.Context, *Node) error
	begin   func(context.Context, *Node) error
	// conflist is the configuration of the plugin.
	conflist object
	// ready returns nil if the network of the node is complete.
	ready func(context.Context, *Node) error
}

// provider returns that of the cluster's network; nil if the network has none.
func (o Options) provider() *provider {
	switch o.Network {
	case Flannel:
		return flannel("vxlan")
	case FlannelRoutes:
		return flannel("host-gw")
	case Cilium:
		return cilium(ciliumSettings())
	}
	return nil
}

// pluginProgram is where a node has the plugin of a provider.
const pluginProgram = "/run/plugin"

// buildProvider builds the programs of a provider. The image is one of the cluster's.
func (c *Cluster) buildProvider(ctx context.Context) error {
	p := c.options.provider()
	if p == nil {
		return nil
	}
	daemon, err := p.daemon.Build(ctx, c.options.Say)
	if err != nil {
		return err
	}
	c.options.Images = append(slices.Clip(c.options.Images),
		Image{Name: p.image, Files: map[string]string{p.path: daemon}, Entrypoint: []string{p.path}})
	c.plugin, err = p.plugin.Build(ctx, c.options.Say)
	return err
}

// waitForProvider returns when the network of the node is complete.
func (n *Node) waitForProvider(ctx context.Context) error {
	p := n.cluster.options.provider()
	if p == nil {
		return nil
	}
	return n.cluster.until(ctx, "the network of "+n.Name(), func() error { return p.ready(ctx, n) })
}

// A daemonSet is a daemon of a provider as an object. Its pods have the network and the programs of their node.
type daemonSet struct {
	namespace, name, image, path string
	args                         []string
	// log is the file to which the daemon writes, in the directory of the machine.
	log string
	// paths are directories of the node that it needs besides, by where it finds them.
	paths map[string]string
	// nodeName is the variable in which it finds the name of its node.
	nodeName string
	// programs are directories of programs that it starts besides those of the machine.
	programs []string
	// config is the name of a ConfigMap, and configAt where its files are; "" for none.
	config, configAt string
}

// programPath is where a daemon looks for the machine's programs.
const programPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// object is the DaemonSet. The daemon starts programs of the machine, such as iptables, which need libraries.
func (d daemonSet) object() object {
	var mounts, volumes []object
	add := func(at, from string) {
		name := fmt.Sprintf("node-%d", len(volumes))
		mounts = append(mounts, object{"name": name, "mountPath": at})
		volumes = append(volumes, object{"name": name, "hostPath": object{"path": from}})
	}
	for _, path := range []string{"/bin", "/sbin", "/usr", "/lib", "/lib64", "/etc/alternatives", "/run"} {
		add(path, path)
	}
	for _, at := range slices.Sorted(maps.Keys(d.paths)) {
		add(at, d.paths[at])
	}
	if d.config != "" {
		mounts = append(mounts, object{"name": "config", "mountPath": d.configAt})
		volumes = append(volumes, object{"name": "config", "configMap": object{"name": d.config}})
	}
	labels := object{"app": d.name}
	return object{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": object{"name": d.name, "namespace": d.namespace},
		"spec": object{
			"selector": object{"matchLabels": labels},
			"template": object{
				"metadata": object{"labels": labels},
				"spec": object{
					"hostNetwork": true, "tolerations": []object{{"operator": "Exists"}}, "automountServiceAccountToken": false,
					"volumes": volumes,
					"containers": []object{{
						"name": d.name, "image": d.image, "imagePullPolicy": "Never",
						"command": []string{
							"/bin/sh", "-c", `exec "$@" >>` + inside + "/" + d.log + " 2>&1", "sh", d.path,
						},
						"args":            d.args,
						"securityContext": object{"privileged": true},
						"env": []object{
							{"name": d.nodeName, "valueFrom": object{"fieldRef": object{"fieldPath": "spec.nodeName"}}},
							{"name": "PATH", "value": strings.Join(append(slices.Clip(d.programs), programPath), ":")},
						},
						"volumeMounts": mounts,
					}},
				},
			},
		},
	}
}

// applyAll creates or changes objects.
func (c *Cluster) applyAll(ctx context.Context, items ...object) error {
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return err
	}
	return c.Apply(ctx, string(text))
}

// routed returns nil if the node has a route to the pods of each other node.
func (n *Node) routed(ctx context.Context) error {
	routes, err := n.machine.run(ctx, "busybox", "ip", "route")
	if err != nil {
		return err
	}
	for _, other := range n.cluster.nodes {
		if other != n && !strings.Contains(routes, other.Pods()[0].String()) {
			return fmt.Errorf("no route to the pods of %s in %q", other.Name(), routes)
		}
	}
	return nil
}
