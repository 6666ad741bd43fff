package testkube_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == killedCommand {
		os.Exit(beKilled(os.Args[2]))
	}
	testkube.Main(m)
}

// image is the image of the pods of tests: nettoll, and a shell.
const image = "nettoll:test"

// images builds nettoll and returns its image.
func images(t *testing.T) []testkube.Image {
	t.Helper()
	nettoll := filepath.Join(t.TempDir(), "nettoll")
	if err := testkube.Program(t.Context(), "./cmd/nettoll", nettoll); err != nil {
		t.Fatal(err)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	return []testkube.Image{{Name: image, Files: map[string]string{"/bin/nettoll": nettoll, "/bin/busybox": busybox}}}
}

// pod is a pod on a node that runs a command.
func pod(name, node string, command ...string) string {
	type object = map[string]any
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "labels": object{"pod": name}},
		"spec": object{
			"nodeName": node, "terminationGracePeriodSeconds": 1,
			"containers": []object{{"name": "c", "image": image, "imagePullPolicy": "Never", "command": command, "stdin": true}},
		},
	})
	if err != nil {
		panic(err) // it is made of strings
	}
	return string(text)
}

// run applies pods and waits until they are ready.
func run(t *testing.T, c *testkube.Cluster, pods ...string) {
	t.Helper()
	if err := c.Apply(t.Context(), strings.Join(pods, "\n")); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "wait", "--for=condition=Ready", "pods", "--all", "--timeout=90s")
}

func kubectl(t *testing.T, c *testkube.Cluster, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := c.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// until calls f until it returns nil.
func until(t *testing.T, what string, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: %v", what, err)
		}
	}
}

// A subtest is one that shares its cluster, which takes seconds to start, with others.
type subtest struct {
	name string
	test func(*testing.T, *testkube.Cluster)
}

// subtests go from what leaves a cluster as it was to what does not.
func subtests() []subtest {
	return []subtest{
		{"nodes", testNodes},
		{"traffic", testTraffic},
		{"service", testService},
		{"exec", testExec},
		{"logs", testLogs},
		{"delete", testDelete},
		{"clients", testClients},
		{"kubelet", testKubelet},
		{"server", testServer},
		{"node", testNode},
	}
}

func TestCluster(t *testing.T) {
	testnet.Kube(t)
	testnet.Skip(t, testkube.Missing())
	testCluster(t, testkube.Options{Proxy: true}, subtests()...)
}

// Clusters whose networks enforce NetworkPolicy are clusters.
func TestCalico(t *testing.T) {
	testnet.KubeFull(t, "it builds Calico")
	testnet.Skip(t, testkube.MissingFor(testkube.Calico))
	testCluster(t, testkube.Options{Proxy: true, Network: testkube.Calico},
		append([]subtest{{"policy", testPolicy}}, subtests()...)...)
}

func TestCilium(t *testing.T) {
	testnet.KubeFull(t, "it builds Cilium")
	testnet.Skip(t, testkube.MissingFor(testkube.Cilium))
	testCluster(t, testkube.Options{Proxy: true, Network: testkube.Cilium},
		append([]subtest{{"policy", testPolicy}}, subtests()...)...)
}

func testCluster(t *testing.T, o testkube.Options, subtests ...subtest) {
	t.Helper()
	var c *testkube.Cluster
	t.Cleanup(func() { // after Stop; TestMain looks for processes, mounts, links and namespaces
		if c == nil {
			return
		}
		if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory of the cluster is left: %v", err)
		}
		for _, n := range c.Nodes() {
			if left := paths(t, filepath.Base(c.Dir())+"-"+n.Name()); len(left) > 0 {
				t.Errorf("cgroups of a node are left: %v", left)
			}
		}
	})
	o.Images = images(t)
	c = testkube.New(t, o)
	for _, one := range subtests {
		if !t.Run(one.name, func(t *testing.T) { one.test(t, c) }) {
			return // what follows would only fail for the same reason
		}
	}
}

func testNodes(t *testing.T, c *testkube.Cluster) {
	for _, n := range c.Nodes() {
		var node struct {
			Spec   struct{ PodCIDRs []string }
			Status struct {
				Conditions []struct{ Type, Status string }
				Addresses  []struct{ Type, Address string }
				NodeInfo   struct{ KubeletVersion, ContainerRuntimeVersion string }
			}
		}
		if err := json.Unmarshal([]byte(kubectl(t, c, "get", "node", n.Name(), "-o", "json")), &node); err != nil {
			t.Fatal(err)
		}
		var ready string
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" {
				ready = condition.Status
			}
		}
		addresses := map[string]bool{}
		for _, a := range node.Status.Addresses {
			addresses[a.Address] = a.Type == "InternalIP"
		}
		if ready != "True" || !addresses[n.Addresses()[0].String()] || !addresses[n.Addresses()[1].String()] ||
			fmt.Sprint(node.Spec.PodCIDRs) != fmt.Sprint(n.Pods()) {
			t.Errorf("node %s is %+v, want one that is ready, with addresses %s and pods %s", n.Name(), node, n.Addresses(), n.Pods())
		}
		t.Logf("%s: kubelet %s, %s", n.Name(), node.Status.NodeInfo.KubeletVersion, node.Status.NodeInfo.ContainerRuntimeVersion)
	}
	if len(c.Nodes()) != 2 {
		t.Errorf("the cluster has %d nodes, want 2", len(c.Nodes()))
	}
}

// addresses returns the addresses of a pod, one of each family.
func addresses(t *testing.T, c *testkube.Cluster, name string) []string {
	t.Helper()
	list := strings.Fields(kubectl(t, c, "get", "pod", name, "-o", "jsonpath={.status.podIPs[*].ip}"))
	if len(list) != 2 || strings.Contains(list[0], ":") == strings.Contains(list[1], ":") {
		t.Fatalf("pod %s has addresses %v, want one of each family", name, list)
	}
	return list
}

// send sends traffic from a pod to a sink, and returns a metric of what arrived there.
func send(t *testing.T, c *testkube.Cluster, from, workload, to, metric string) float64 {
	t.Helper()
	var result struct {
		Metrics map[string]float64
		Error   string
	}
	text := kubectl(t, c, "exec", from, "--", "/bin/nettoll", "source", workload, to, "--interval", "300ms", "--time",
		"300ms", "--output", "json")
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if result.Error != "" {
		t.Fatal(result.Error)
	}
	return result.Metrics[metric]
}

// Pods on one node and on two reach each other over TCP and UDP, in both families: a sink in a pod counts what arrives.
func testTraffic(t *testing.T, c *testkube.Cluster) {
	run(t, c, pod("sink", "n1", "/bin/nettoll", "sink"), pod("near", "n1", "/bin/busybox", "cat"),
		pod("far", "n2", "/bin/busybox", "cat"))
	for _, from := range []string{"near", "far"} {
		for _, ip := range addresses(t, c, "sink") {
			for workload, metric := range map[string]string{"udp-rate": "packet_rate", "tcp-stream": "goodput"} {
				got := send(t, c, from, workload, ip, metric)
				t.Logf("%s from %s to %s: %s %.3g", workload, from, ip, metric, got)
				if got <= 0 {
					t.Errorf("%s from %s to %s: nothing arrived", workload, from, ip)
				}
			}
		}
	}
}

// kube-proxy leads what is sent to the address of a service to its pod, from both nodes and in both families.
func testService(t *testing.T, c *testkube.Cluster) {
	run(t, c, pod("echo", "n1", "/bin/busybox", "sh", "-c", "while :; do busybox nc -l -p 5000 -e busybox cat; done"))
	if err := c.Apply(t.Context(), `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"}, "spec": {
		"selector": {"pod": "echo"}, "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 7, "targetPort": 5000}]}}`); err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(kubectl(t, c, "get", "service", "echo", "-o", "jsonpath={.spec.clusterIPs[*]}"))
	if len(list) != 2 {
		t.Fatalf("the service has addresses %v, want one of each family", list)
	}
	for _, from := range []string{"near", "far"} {
		for _, ip := range list {
			until(t, "the service at "+ip+" from "+from, func() error {
				out, err := c.Kubectl(t.Context(), "exec", from, "--", "/bin/busybox", "sh", "-c",
					"echo service | busybox nc -w 2 "+ip+" 7")
				if err == nil && strings.TrimSpace(out) != "service" {
					err = fmt.Errorf("got %q", out)
				}
				return err
			})
		}
	}
}

// exec connects a program in a pod with standard input and output while it runs, and returns its exit status.
func testExec(t *testing.T, c *testkube.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := c.KubectlCommand(ctx, "exec", "-i", "far", "--", "/bin/busybox", "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := c.StartClient(cmd); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	for i := range 20 { // each line is answered before the next one is written
		line := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(in, line); err != nil {
			t.Fatal(err, said.String())
		}
		if got, err := answers.ReadString('\n'); err != nil || got != line {
			t.Fatalf("got %q, %v, want %q; %s", got, err, line, said.String())
		}
	}
	sent := make([]byte, 4<<20)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = in.Write(sent)
		_ = in.Close()
	}()
	got, err := io.ReadAll(answers)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatal(err, said.String())
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes back, which are not the %d that were sent", len(got), len(sent))
	}
	_, err = c.Kubectl(ctx, "exec", "far", "--", "/bin/busybox", "sh", "-c", "exit 7")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("exec of a command with status 7: %v", err)
	}
}

func testLogs(t *testing.T, c *testkube.Cluster) {
	run(t, c, pod("talker", "n2", "/bin/busybox", "sh", "-c", "echo one; echo two; exec busybox cat"))
	if got := kubectl(t, c, "logs", "talker"); got != "one\ntwo" {
		t.Errorf("the log of a pod is %q", got)
	}
}

// A pod that is deleted is gone, with its group.
func testDelete(t *testing.T, c *testkube.Cluster) {
	uid := kubectl(t, c, "get", "pod", "talker", "-o", "jsonpath={.metadata.uid}")
	if len(paths(t, "pod"+uid)) == 0 {
		t.Errorf("pod %s has no cgroup: its end would show nothing", uid)
	}
	kubectl(t, c, "delete", "pod", "talker", "--timeout=60s")
	if _, err := c.Kubectl(t.Context(), "get", "pod", "talker"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("get a pod that was deleted: %v", err)
	}
	until(t, "the end of the cgroups of a pod", func() error {
		if left := paths(t, "pod"+uid); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// paths lists control groups of nodes whose names end so.
func paths(t *testing.T, suffix string) (list []string) {
	t.Helper()
	names, err := testkube.Groups()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		roots, err := filepath.Glob(filepath.Join("/sys/fs/cgroup", "*", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, root := range roots {
			_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() && strings.HasSuffix(path, suffix) {
					list = append(list, path)
				}
				return nil // it may have been removed meanwhile
			})
		}
	}
	return list
}

// client returns a client of the API server, which reaches it by Dial, and the server's URL.
func client(t *testing.T, c *testkube.Cluster) (*http.Client, string) {
	t.Helper()
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
	}
	text, err := os.ReadFile(c.Kubeconfig())
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.Users[0].User.Cert, config.Users[0].User.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.Clusters[0].Cluster.CA)
	transport := &http.Transport{
		DialContext:     c.Dial,
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, config.Clusters[0].Cluster.Server
}

// A client of this process reaches the API server by Dial, and a program of the machine by a relay.
func testClients(t *testing.T, c *testkube.Cluster) {
	api, server := client(t, c)
	response, err := api.Get(server + "/api/v1/nodes")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"NodeList"`)) {
		t.Errorf("nodes by Dial: %s, %v: %s", response.Status, err, body)
	}

	workloadtest.Loopback(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path, err := c.Relay(ctx)
	if err != nil {
		t.Fatal(err)
	}
	relayed := c.KubectlCommand(ctx, "--kubeconfig", path, "get", "nodes", "-o", "name") // in the namespace of this test
	if out, err := relayed.CombinedOutput(); err != nil || string(out) != "node/n1\nnode/n2\n" {
		t.Errorf("nodes by a relay: %v: %s", err, out)
	}
}

// ready waits until a condition of a node is such.
func ready(t *testing.T, c *testkube.Cluster, node, status string) {
	t.Helper()
	kubectl(t, c, "wait", "--for=condition=Ready="+status, "node/"+node, "--timeout=90s")
}

// The pods of a node survive its kubelet, and the next one takes them over.
func testKubelet(t *testing.T, c *testkube.Cluster) {
	before := container(t, c, "sink")
	n1 := c.Nodes()[0]
	if err := n1.KillKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if send(t, c, "far", "udp-rate", addresses(t, c, "sink")[0], "packet_rate") <= 0 {
		t.Error("nothing arrived in a pod whose node has no kubelet")
	}
	ready(t, c, "n1", "Unknown")
	if err := n1.StartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready(t, c, "n1", "True")
	until(t, "exec by the new kubelet", func() error {
		_, err := c.Kubectl(t.Context(), "exec", "sink", "--", "/bin/busybox", "true")
		return err
	})
	if after := container(t, c, "sink"); after != before {
		t.Errorf("the container of pod sink was %s, and is %s", before, after)
	}
}

// container returns the number of a pod's container.
func container(t *testing.T, c *testkube.Cluster, name string) string {
	t.Helper()
	return kubectl(t, c, "get", "pod", name, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
}

// The cluster survives its API server: what it knew it knows, and pods are made again.
func testServer(t *testing.T, c *testkube.Cluster) {
	before := container(t, c, "sink")
	if err := c.RestartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := container(t, c, "sink"); after != before {
		t.Errorf("the container of pod sink was %s, and is %s", before, after)
	}
	run(t, c, pod("later", "n2", "/bin/busybox", "cat"))
	kubectl(t, c, "exec", "later", "--", "/bin/busybox", "true")
}

// A node that fails is known not to be ready, nothing of it is left on the machine, and its pods run again with it.
func testNode(t *testing.T, c *testkube.Cluster) {
	n2 := c.Nodes()[1]
	before := container(t, c, "far")
	if err := n2.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := paths(t, filepath.Base(c.Dir())+"-n2"); len(left) > 0 {
		t.Errorf("cgroups of a node that was stopped: %v", left)
	}
	ready(t, c, "n2", "Unknown")
	if err := n2.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready(t, c, "n2", "True")
	until(t, "pod far on the node that started again", func() error {
		if after := container(t, c, "far"); after == before {
			return fmt.Errorf("its container is still said to be %s", after)
		}
		_, err := c.Kubectl(t.Context(), "exec", "far", "--", "/bin/busybox", "true")
		return err
	})
	if send(t, c, "far", "tcp-stream", addresses(t, c, "sink")[1], "goodput") <= 0 {
		t.Error("nothing arrived from a node that started again")
	}
}

// killedCommand has the test program start a cluster with a network, which follows, and wait to be killed.
const killedCommand = "be-killed"

func beKilled(network string) int {
	c, err := testkube.Start(context.Background(), testkube.Options{Nodes: 1, Network: network})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(c.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 1
}

// When the process of a cluster is killed, its processes end at once, and Clean removes the rest. A cluster that runs
// is left alone.
func TestKilled(t *testing.T) {
	testnet.Kube(t)
	testnet.Skip(t, testkube.Missing())
	testKilled(t, testkube.Bridge)
}

// Rules, sets and routes of a network end with its nodes, and so do its devices and pods.
func TestCalicoKilled(t *testing.T)  { testNetworkKilled(t, testkube.Calico) }
func TestFlannelKilled(t *testing.T) { testNetworkKilled(t, testkube.Flannel) }
func TestCiliumKilled(t *testing.T)  { testNetworkKilled(t, testkube.Cilium) }

func testNetworkKilled(t *testing.T, network string) {
	t.Helper()
	testnet.KubeFull(t, "it builds the programs of a network")
	testnet.Skip(t, testkube.MissingFor(network))
	before := state(t)
	testKilled(t, network)
	if after := state(t); after != before {
		t.Errorf("the network namespace of the test had\n%s\nand has\n%s", before, after)
	}
}

// state is what a network could leave behind in the network namespace of this test.
func state(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, command := range []string{
		"iptables-save", "ip6tables-save", "iptables-legacy-save", "ip6tables-legacy-save", "ip link", "ip rule",
		"ip -4 route show table all", "ip -6 route show table all", "ipset save",
	} {
		args := strings.Fields(command)
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		fmt.Fprintf(&all, "%s:\n%s", command, out)
	}
	return all.String()
}

func testKilled(t *testing.T, network string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", killedCommand, network)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(cmd, process.Options{}); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	dir := strings.TrimSpace(line)
	if _, statErr := os.Stat(dir); err != nil || statErr != nil {
		text, _ := io.ReadAll(out)
		t.Fatalf("the cluster did not start: %s%s", line, text)
	}
	suffix := filepath.Base(dir) + "-n1"
	if err := testkube.Clean(); err != nil {
		t.Fatal(err)
	}
	if len(processes(t, suffix)) < 3 || len(paths(t, suffix)) == 0 { // PID 1, containerd and the kubelet at least
		t.Fatalf("processes %v and cgroups %v of a cluster that runs", processes(t, suffix), paths(t, suffix))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	killed := time.Now()
	for len(processes(t, suffix)) > 0 {
		if time.Since(killed) > 2*time.Second {
			t.Fatalf("processes outlive the one that started the cluster: %v", processes(t, suffix))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(paths(t, suffix)) == 0 {
		t.Error("no cgroup outlived the cluster: this shows nothing of Clean")
	}
	if err := testkube.Clean(); err != nil {
		t.Fatal(err)
	}
	if left := paths(t, suffix); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the cluster is left: %v", err)
	}
}

// processes lists those in control groups of a node, whose names end so.
func processes(t *testing.T, suffix string) (list []string) {
	t.Helper()
	for _, root := range paths(t, suffix) {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == "cgroup.procs" {
				text, _ := os.ReadFile(path)
				list = append(list, strings.Fields(string(text))...)
			}
			return nil // it may have been removed meanwhile
		})
	}
	return list
}

// Builds at a time wait for each other, and make one binary.
func TestBuild(t *testing.T) {
	testnet.Kube(t)
	testnet.Skip(t, testkube.Missing())
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var built [2]string
	var group errgroup.Group
	var mu sync.Mutex
	var said []string
	for i := range built {
		group.Go(func() (err error) {
			built[i], err = testkube.Build(t.Context(), func(what string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, what)
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if built[0] != built[1] {
		t.Errorf("built %q, want one file", built)
	}
	if len(said) != 2 || strings.Contains(said[0], "waiting") == strings.Contains(said[1], "waiting") {
		t.Errorf("said %q, want that one is building and the other waits", said)
	}
	entries, err := os.ReadDir(filepath.Dir(built[0]))
	if err != nil || len(entries) != 2 {
		t.Errorf("made %v, %v, want a binary and a lock", entries, err)
	}
	text, err := exec.Command(built[0], "kubectl", "version", "--client").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "v1.35.4") {
		t.Errorf("kubectl version: %v: %s", err, text)
	}
}
