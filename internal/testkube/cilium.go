package testkube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testprogram"
)

// ciliumVersion is the release that cilium/go.mod names.
const ciliumVersion = "v1.20.2"

// Names of Cilium's objects, as its chart has them (install/kubernetes/cilium of cilium/cilium).
const (
	ciliumSpace  = "kube-system"
	ciliumConfig = "cilium-config"
	ciliumSet    = "cilium"
)

// ciliumHealth is the port at which Cilium's agent says how it is (agent-health-port).
const ciliumHealth = 9879

// ciliumCompiler is the compiler that the agent starts to make its programs for the kernel, by the name clang: of the
// release of LLVM that Cilium's own image has (images/runtime/Dockerfile).
const ciliumCompiler = "clang-19"

// ciliumModule is where Cilium's source is from.
const ciliumModule = "github.com/cilium/cilium"

// ciliumProgram is the agent and the CNI plugin.
func ciliumProgram() testprogram.Program {
	return testprogram.Program{
		Folder: home + "/cilium", Package: ".", Cache: cache, File: "cilium-", What: "the programs of Cilium",
		Minutes: "fifteen minutes", Version: ciliumVersion,
		Linking: "-s -w -X " + ciliumModule + "/pkg/version.ciliumVersion=" + ciliumVersion[1:],
	}
}

// cilium is the network Cilium. Its settings are those by which the agent runs, and which its chart stores.
func cilium(settings object) *provider {
	image := "docker.io/cilium/cilium:" + ciliumVersion
	const path = "/opt/bin/cilium"
	return &provider{
		daemon: ciliumProgram(), plugin: ciliumProgram(), image: image, path: path, pluginName: "cilium-cni",
		missing: func() error {
			_, err := compilerDir()
			return err
		},
		prepare: func(ctx context.Context, c *Cluster) error {
			source, err := moduleDir(ctx, ciliumProgram().Folder, ciliumModule)
			if err != nil {
				return err
			}
			// Cilium's operator would make them, which has nothing to do else if Kubernetes gives the ranges of nodes.
			for _, version := range []string{"v2", "v2alpha1"} {
				kinds := filepath.Join(source, "pkg", "k8s", "apis", "cilium.io", "client", "crds", version)
				if err := c.define(ctx, kinds); err != nil {
					return err
				}
			}
			if source, err = moduleDir(ctx, ciliumProgram().Folder, policyAPI); err != nil {
				return err
			}
			// With all fields (the experimental channel), such as address ranges.
			if err := c.define(ctx, filepath.Join(source, "config", "crd", "experimental",
				"policy.networking.k8s.io_clusternetworkpolicies.yaml")); err != nil {
				return err
			}
			compiler, err := compilerDir()
			if err != nil {
				return err
			}
			return c.applyAll(ctx,
				object{
					"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": object{"name": ciliumConfig, "namespace": ciliumSpace}, "data": settings,
				},
				daemonSet{
					namespace: ciliumSpace, name: ciliumSet, image: image, path: path, log: "cilium-agent.log",
					nodeName: "K8S_NODE_NAME", programs: []string{compiler},
					args:   []string{"agent", "--config-dir=/cilium"},
					paths:  map[string]string{"/sys/fs/bpf": "/sys/fs/bpf", ciliumLibrary + "/bpf": inside + "/bpf"},
					config: ciliumConfig, configAt: "/cilium",
				}.object())
		},
		furnish: func(ctx context.Context, n *Node) error {
			c, m := n.cluster, n.machine
			source, err := moduleDir(ctx, ciliumProgram().Folder, ciliumModule)
			if err != nil {
				return err
			}
			sources := filepath.Join(m.dir, "bpf")
			if err := os.RemoveAll(sources); err != nil { // of a node that starts again
				return err
			}
			// The agent writes there what features the kernel has.
			if err := os.CopyFS(sources, os.DirFS(filepath.Join(source, "bpf"))); err != nil {
				return err
			}
			return c.writeConfig(c.file(controlName, admin), filepath.Join(m.dir, "cilium.kubeconfig"))
		},
		begin: func(ctx context.Context, n *Node) error { // its maps and programs outlive its container
			_, err := n.machine.run(ctx, "mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
			return err
		},
		conflist: object{"cniVersion": "0.3.1", "name": "cilium", "plugins": []object{{
			"type": "cilium-cni", "log-file": inside + "/cilium-cni.log",
		}}},
		ready: func(ctx context.Context, n *Node) error {
			if _, err := n.machine.run(ctx, "busybox", "wget", "-q", "-O", "-", "--header", "brief: true",
				fmt.Sprintf("http://127.0.0.1:%d/healthz", ciliumHealth)); err != nil {
				return err
			}
			return n.routed(ctx)
		},
	}
}

// ciliumLibrary is where the agent has the sources of its programs for the kernel.
const ciliumLibrary = "/var/lib/cilium"

// ciliumSettings are those with VXLAN between nodes and beside kube-proxy. Nothing is translated, encrypted or read
// above the transport layer.
func ciliumSettings() object {
	return object{
		"k8s-kubeconfig-path": inside + "/cilium.kubeconfig", "ipam": "kubernetes", "identity-allocation-mode": "crd",
		"cluster-name": "default", "devices": "eth0",
		"routing-mode": "tunnel", "tunnel-protocol": "vxlan", "kube-proxy-replacement": "false",
		"enable-ipv4": "true", "enable-ipv6": "true",
		"enable-ipv4-masquerade": "false", "enable-ipv6-masquerade": "false",
		"enable-l7-proxy": "false", "external-envoy-proxy": "false", "enable-hubble": "false",
		"enable-k8s-cluster-network-policy": "true", // by default Cilium does not read ClusterNetworkPolicy
		"enable-health-checking":            "false", "enable-endpoint-health-checking": "false",
		"bpf-map-dynamic-size-ratio": "0.0025", // as the chart has it: the maps are those of a machine with little memory
		"lib-dir":                    ciliumLibrary, "state-dir": "/run/cilium", "socket-path": "/run/cilium/cilium.sock",
		"bpf-root": "/sys/fs/bpf", "cgroup-root": "/run/cilium/cgroupv2",
		"agent-health-port": fmt.Sprint(ciliumHealth),
	}
}

// compilerDir returns the directory that has Cilium's compiler by the name clang.
func compilerDir() (string, error) {
	path, err := exec.LookPath(ciliumCompiler)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", &linux.UnsupportedError{
			What: "start a Kubernetes cluster with Cilium", Missing: fmt.Sprintf("program %q", ciliumCompiler),
			Hint: "apt-get install " + ciliumCompiler, Err: err,
		}
	}
	return filepath.Dir(path), nil
}
