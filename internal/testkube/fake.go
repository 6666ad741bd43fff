package testkube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testprogram"
)

// The controller of fake nodes. It sees the files of the cluster's images as its own: what is executed in fake pods is
// a process of the control plane that has this root, and its network.
const (
	fakes    = "kwok"
	fakeRoot = "/run/fake"
	// fakePort is where it answers for all kubelets.
	fakePort = 10250
	// mostFakes is how many fake nodes have ranges of their own for pods, of 256 addresses each in 10.128.0.0/9.
	mostFakes = 1 << 15
)

// fakeVersion is the release that kwok/go.mod names. Building it took a minute on two CPUs that had other work, too.
const fakeVersion = "v0.8.0"

func fakers() testprogram.Program {
	return testprogram.Program{
		Folder: home + "/kwok", Package: "sigs.k8s.io/kwok/cmd/kwok", Cache: cache, File: "kwok-", What: "kwok",
		Minutes: "three minutes", Linking: "-s -w", Version: fakeVersion,
	}
}

// stage is the path of a file with a Stage of kwok, which is a part of its module: no package has them.
func stage(ctx context.Context, elements ...string) (string, error) {
	source, err := moduleDir(ctx, fakers().Folder, "sigs.k8s.io/kwok")
	return filepath.Join(append([]string{source, "kustomize"}, elements...)...), err
}

// controlSpec is what the machine of the control plane has besides.
func (c *Cluster) controlSpec() spec {
	if c.faker == "" {
		return spec{}
	}
	binds := []process.Bind{{From: c.faker, To: fakeRoot + "/" + fakes}, {From: c.control.dir, To: fakeRoot + "/control"}}
	for _, image := range c.options.Images {
		for to, from := range image.Files {
			binds = append(binds, process.Bind{From: from, To: fakeRoot + to})
		}
	}
	return spec{Node: process.Node{Binds: binds}}
}

// hurried are settings of a controller manager or scheduler of a cluster with fake nodes: with the usual 20 requests of
// each controller a second, 5,000 pods take five minutes. Fake nodes say once that they live.
func (c *Cluster) hurried(name string) []string {
	if c.options.Fake == 0 {
		return nil
	}
	args := []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}
	if name == controllers {
		args = append(args, "--node-monitor-grace-period=24h", "--concurrent-job-syncs=20", "--concurrent-gc-syncs=40",
			"--concurrent-namespace-syncs=20")
	}
	return args
}

// fakeNodes starts the controller of fake nodes, makes them, and waits until they are ready.
func (c *Cluster) fakeNodes(ctx context.Context) error {
	if c.options.Fake == 0 {
		return nil
	}
	kind, err := stage(ctx, "crd", "bases", "kwok.x-k8s.io_stages.yaml")
	if err != nil {
		return err
	}
	if err := c.define(ctx, kind); err != nil {
		return err
	}
	for _, elements := range [][]string{
		{"stage", "node", "fast", "node-initialize.yaml"},
		{"stage", "pod", "fast", "pod-ready.yaml"},
		{"stage", "pod", "fast", "pod-delete.yaml"},
	} {
		if err := c.play(ctx, elements...); err != nil {
			return err
		}
	}
	if err := c.furnishFaker(ctx); err != nil {
		return err
	}
	if err := c.StartFakes(ctx); err != nil {
		return err
	}
	if err := c.announceFakes(ctx); err != nil {
		return err
	}
	return c.until(ctx, "fake nodes", func() error {
		if err := c.control.alive(ctx, fakes); err != nil {
			return final{err}
		}
		text, err := c.Kubectl(ctx, "get", "nodes", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if n := strings.Count(text, "True"); err == nil && n < c.options.Fake {
			err = fmt.Errorf("%d of %d are ready", n, c.options.Fake)
		}
		return err
	})
}

// play has fake nodes and pods go through a stage.
func (c *Cluster) play(ctx context.Context, elements ...string) error {
	path, err := stage(ctx, elements...)
	if err == nil {
		_, err = c.Kubectl(ctx, "apply", "-f", path)
	}
	return err
}

// furnishFaker makes the root of the controller.
func (c *Cluster) furnishFaker(ctx context.Context) error {
	for _, dir := range []string{"proc", "dev"} {
		at := filepath.Join(fakeRoot, dir)
		if _, err := c.control.run(ctx, "mkdir", at); err != nil {
			return err
		}
		if _, err := c.control.run(ctx, "mount", "--bind", "/"+dir, at); err != nil {
			return err
		}
	}
	config, err := json.Marshal(object{
		"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterExec", "metadata": object{"name": "all"},
		"spec": object{"execs": []object{{"local": object{}}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.control.dir, "kwok.json"), config, 0o600)
}

// StartFakes starts the controller of fake nodes, which listens where the API server has its address, with the
// certificate of that. [Start] has done it.
func (c *Cluster) StartFakes(ctx context.Context) error {
	return c.control.daemon(ctx, fakes, "busybox", "chroot", fakeRoot, "/"+fakes, "--config=/control/kwok.json",
		"--kubeconfig=/control/"+admin+".kubeconfig", "--manage-all-nodes", "--enable-crds=Stage",
		"--node-ip="+control4().String(), fmt.Sprintf("--node-port=%d", fakePort),
		"--server-address="+netip.AddrPortFrom(control4(), fakePort).String(), "--node-lease-duration-seconds=0",
		"--tls-cert-file=/control/"+apiServer+".crt", "--tls-private-key-file=/control/"+apiServer+".key")
}

// KillFakes kills it. All fake nodes are still there, but none of their kubelets answers.
func (c *Cluster) KillFakes(ctx context.Context) error { return c.control.kill(ctx, fakes) }

// announceFakes makes the objects of fake nodes. Like usual nodes, each takes 110 pods.
func (c *Cluster) announceFakes(ctx context.Context) error {
	has := object{"cpu": "32", "memory": "128Gi", "pods": "110"}
	var items []object
	for i := range c.options.Fake {
		name, ip := fmt.Sprintf("f%d", i+1), netip.AddrFrom4([4]byte{10, byte(128 + i/256), byte(i % 256), 0})
		items = append(items, object{
			"apiVersion": "v1", "kind": "Node",
			"metadata": object{"name": name, "labels": object{
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			}},
			"spec":   object{"podCIDR": netip.PrefixFrom(ip, 24).String()},
			"status": object{"allocatable": has, "capacity": has},
		})
	}
	for some := range slices.Chunk(items, 500) {
		text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": some})
		if err != nil {
			return err
		}
		if _, err := c.kubectl(ctx, strings.NewReader(string(text)), "create", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// EndPods has the pods of Jobs on fake nodes end, as if their first processes had: those that there are, and all later
// ones. Kwok has to start again for that: it looks at a pod only when that has changed.
func (c *Cluster) EndPods(ctx context.Context) error {
	if err := c.play(ctx, "stage", "pod", "fast", "pod-complete.yaml"); err != nil {
		return err
	}
	if err := c.KillFakes(ctx); err != nil {
		return err
	}
	return c.StartFakes(ctx)
}
