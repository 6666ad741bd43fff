package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

type object = map[string]any

// A pod as far as the tests read it.
type pod struct {
	Metadata struct{ Name, ResourceVersion string }
	Status   struct{ Phase string }
}

// kube is a cluster, and how its user reaches it.
type kube struct {
	*testkube.Cluster
	options Options
	config  string // the path of the user's kubeconfig
	client  *Client
}

// namespace is that of the tests.
const namespace = "kubectl"

func pods(name string) string { return "/api/v1/namespaces/" + namespace + "/pods" + name }

// The tests share a cluster, which takes seconds to start, and go from what leaves it as it was to what does not.
func TestCluster(t *testing.T) {
	testnet.Kube(t)
	testnet.Skip(t, testkube.Missing())
	k := &kube{Cluster: testkube.New(t, testkube.Options{Nodes: 1})}
	workloadtest.Loopback(t)
	bin := t.TempDir()
	if err := k.LinkKubectl(bin); err != nil {
		t.Fatal(err)
	}
	config, err := k.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.config = config
	k.options = Options{Program: filepath.Join(bin, "kubectl"), Env: append(os.Environ(), "KUBECONFIG="+k.config)}
	begun := time.Now()
	if k.client, err = Open(t.Context(), k.options); err != nil {
		t.Fatal(err)
	}
	t.Logf("opened in %v", time.Since(begun))
	t.Cleanup(func() {
		if err := k.client.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, one := range []struct {
		name string
		test func(*testing.T, *kube)
	}{
		{"open", testOpen},
		{"pod", testPod},
		{"exec", testExec},
		{"rights", testRights},
		{"delete", testDelete},
		{"server", testServer},
		{"kubelet", testKubelet},
	} {
		if !t.Run(one.name, func(t *testing.T) {
			begun := time.Now()
			one.test(t, k)
			t.Logf("%s took %v", one.name, time.Since(begun))
		}) {
			return // what follows would only fail for the same reason
		}
	}
}

// kubeconfig writes a changed copy of the user's configuration, and returns options with it.
func (k *kube) changed(t *testing.T, change func(config object)) Options {
	t.Helper()
	text, err := os.ReadFile(k.config)
	var config object
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err == nil {
		change(config)
		text, err = json.Marshal(config)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Options{Program: k.options.Program, Env: append(os.Environ(), "KUBECONFIG="+path)}
}

// user sets the credentials of a configuration.
func user(credentials object) func(object) {
	return func(config object) { config["users"].([]any)[0].(object)["user"] = credentials }
}

func testOpen(t *testing.T, k *kube) {
	if v := k.client.Version(); v != "v1.35.4" || k.client.Namespace() != "default" {
		t.Errorf("version %q, namespace %q", v, k.client.Namespace())
	}
	other := k.options
	other.Context = "elsewhere"
	for want, o := range map[string]Options{
		fmt.Sprintf("kubectl has no context %q (valid: %s)", "elsewhere", k.client.Context()): other,
		"kubectl has no configuration of a cluster": {
			Program: k.options.Program, Env: append(os.Environ(), "KUBECONFIG="+filepath.Join(t.TempDir(), "none")),
		},
		"kubectl has no current context": k.changed(t, func(config object) { delete(config, "current-context") }),
		"connect: connection refused": k.changed(t, func(config object) {
			config["clusters"].([]any)[0].(object)["cluster"].(object)["server"] = "https://127.0.0.1:1"
		}),
		"cannot reach the API server": k.changed(t, func(config object) {
			delete(config["clusters"].([]any)[0].(object)["cluster"].(object), "certificate-authority-data") // it is signed by nobody
		}),
		"refuses the credentials of context": k.changed(t, user(object{"token": "wrong"})),
		"getting credentials": k.changed(t, user(object{"exec": object{
			"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin-of-nobody", "interactiveMode": "Never",
		}})),
	} {
		begun := time.Now()
		c, err := Open(t.Context(), o)
		if c != nil {
			_ = c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("%s: it took %v", want, d)
		}
		t.Log(err)
	}
}

// A pod is created, and watched until it runs.
func testPod(t *testing.T, k *kube) {
	c, ctx := k.client, t.Context()
	if err := c.Create(ctx, "/api/v1/namespaces", object{"metadata": object{"name": namespace}}, nil); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for c.Get(ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default", nil) != nil { // pods need it
		if time.Now().After(deadline) {
			t.Fatal("the namespace has no service account")
		}
		time.Sleep(50 * time.Millisecond)
	}
	var made pod
	spec := object{"metadata": object{"name": "p"}, "spec": object{
		"terminationGracePeriodSeconds": 0,
		"containers": []object{{
			"name": "c", "image": testkube.Shell, "imagePullPolicy": "Never",
			"command": []string{"/bin/busybox", "sleep", "100000"},
		}},
	}}
	if err := c.Create(ctx, pods(""), spec, &made); err != nil || made.Metadata.Name != "p" {
		t.Fatal(made, err)
	}
	phases := map[string]bool{}
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := c.Watch(bounded, pods("?fieldSelector=metadata.name%3Dp&resourceVersion=")+made.Metadata.ResourceVersion,
		func(_ string, o json.RawMessage) (bool, error) {
			var p pod
			err := json.Unmarshal(o, &p)
			phases[p.Status.Phase] = true
			return p.Status.Phase == "Running", err
		})
	if err != nil || !phases["Pending"] {
		t.Errorf("phases %v, %v", phases, err)
	}
	if err := c.Create(ctx, pods(""), spec, nil); code(err) != http.StatusConflict {
		t.Errorf("a pod that there is: %v", err)
	}
	if err := c.Create(ctx, pods(""), object{"metadata": object{"name": "q"}}, nil); code(err) != http.StatusUnprocessableEntity {
		t.Errorf("a pod without containers: %v", err)
	}
	if err := c.Get(ctx, pods("/none"), nil); code(err) != http.StatusNotFound {
		t.Errorf("a pod that is not there: %v", err)
	}
}

// shell is a command in the test's pod.
func shell(script string) Target {
	return Target{Namespace: namespace, Pod: "p", Command: []string{"/bin/busybox", "sh", "-c", script}}
}

// run runs a command and returns its output.
func (k *kube) run(t *testing.T, target Target) (string, error) {
	t.Helper()
	p, err := k.client.Exec(t.Context(), target)
	if err != nil {
		return "", err
	}
	defer p.Kill()
	out, err := io.ReadAll(p.Stdout)
	if waitErr := p.Wait(); waitErr != nil {
		err = waitErr
	}
	return string(out), err
}

func testExec(t *testing.T, k *kube) {
	p := start(t, k.client, shell("exec busybox cat"))
	if p.protocol != protocol5 {
		t.Errorf("the API server speaks %s", p.protocol)
	}
	echo(t, p, 1)
	begun := time.Now()
	for range 100 {
		echo(t, p, 100)
	}
	t.Logf("a round trip of 100 bytes takes %v", time.Since(begun)/100)
	begun = time.Now()
	echo(t, p, 8<<20)
	t.Logf("8 MiB both ways take %v", time.Since(begun))
	if err := p.Stdin.Close(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(p.Stdout); err != nil || len(rest) > 0 {
		t.Errorf("rest %q, %v", rest, err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}

	var exit *ExitError
	if out, err := k.run(t, shell("echo out; exit 7")); !errors.As(err, &exit) || exit.Code != 7 || out != "out\n" {
		t.Errorf("exit 7: %q, %v", out, err)
	}
	if _, err := k.run(t, shell("kill -9 $$")); !errors.As(err, &exit) || exit.Code != 137 {
		t.Errorf("a program that is killed: %v", err)
	}
	nine := shell("exit 9")
	nine.Success = 9
	if _, err := k.run(t, nine); err != nil {
		t.Errorf("a program whose success is 9: %v", err)
	}
	p = start(t, k.client, shell("echo err >&2; echo out"))
	for want, r := range map[string]io.Reader{"err\n": p.Stderr, "out\n": p.Stdout} {
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	for name, target := range map[string]Target{
		"pod":       {Namespace: namespace, Pod: "none", Command: []string{"x"}},
		"container": {Namespace: namespace, Pod: "p", Container: "none", Command: []string{"x"}},
		"program":   {Namespace: namespace, Pod: "p", Command: []string{"/none"}},
		"command":   {Namespace: namespace, Pod: "p"},
	} {
		_, err := k.run(t, target)
		if code(err) == 0 {
			t.Errorf("no such %s: %v", name, err)
		}
		t.Logf("no such %s: %v", name, err)
	}

	// A program that does not read its input is kept for longer than it takes to find a dead connection.
	hasty, err := open(t.Context(), k.options, short())
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.Close()
	p = start(t, hasty, shell("sleep 3; exec busybox cat"))
	echo(t, p, 4<<20)
	p.Kill()
	if err := p.Wait(); !lost(err) {
		t.Errorf("after Kill: %v", err)
	}
}

// A service account without rights is told which one is missing.
func testRights(t *testing.T, k *kube) {
	var token struct{ Status struct{ Token string } }
	if err := k.client.Create(t.Context(), "/api/v1/namespaces/"+namespace+"/serviceaccounts/default/token", object{}, &token); err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), k.changed(t, user(object{"token": token.Status.Token})))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, execErr := c.Exec(t.Context(), shell("true"))
	for what, err := range map[string]error{
		`cannot list resource "pods"`:          c.Get(t.Context(), pods(""), nil),
		`cannot create resource "pods"`:        c.Create(t.Context(), pods(""), object{}, nil),
		`resource "pods/exec" in API group ""`: execErr,
	} {
		if code(err) != http.StatusForbidden || !strings.Contains(err.Error(), what) {
			t.Errorf("got  %v\nwant %s", err, what)
		}
		t.Log(err)
	}
}

func testDelete(t *testing.T, k *kube) {
	c, ctx := k.client, t.Context()
	config := "/api/v1/namespaces/" + namespace + "/configmaps"
	if err := c.Create(ctx, config, object{"metadata": object{"name": "m"}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, config+"/m", object{"gracePeriodSeconds": 0}); err != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, config+"/m", nil); code(err) != http.StatusNotFound {
		t.Errorf("the second time: %v", err)
	}
}

// Requests and watches outlive the API server; programs are lost with it.
func testServer(t *testing.T, k *kube) {
	c := k.client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	config := "/api/v1/namespaces/" + namespace + "/configmaps"
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := c.Get(ctx, config, &list); err != nil {
		t.Fatal(err)
	}
	watched := make(chan error, 1)
	go func() {
		watched <- c.Watch(ctx, config+"?resourceVersion="+list.Metadata.ResourceVersion,
			func(_ string, o json.RawMessage) (bool, error) {
				var m pod
				err := json.Unmarshal(o, &m)
				return m.Metadata.Name == "after", err
			})
	}()
	p := start(t, c, shell("exec busybox cat"))
	echo(t, p, 1)
	got := make(chan error, 1)
	restarted := make(chan struct{})
	go func() {
		for {
			err := c.Get(ctx, config, nil)
			select {
			case <-restarted:
				got <- err
				return
			default:
			}
			if err != nil {
				got <- err
				return
			}
		}
	}()
	if err := k.RestartServer(ctx); err != nil {
		t.Fatal(err)
	}
	close(restarted)
	if err := <-got; err != nil {
		t.Errorf("get while the API server starts again: %v", err)
	}
	if err := p.Wait(); !lost(err) {
		t.Errorf("a program whose API server is killed: %v", err)
	}
	if err := c.Create(ctx, config, object{"metadata": object{"name": "after"}}, nil); err != nil {
		t.Error(err)
	}
	if err := <-watched; err != nil {
		t.Errorf("watch while the API server starts again: %v", err)
	}
}

// An API server that loses the kubelet says that a program has ended well. A program that ends with another status
// shows that it has not.
func testKubelet(t *testing.T, k *kube) {
	nine := shell("busybox cat; exit 9")
	nine.Success = 9
	believed, certain := start(t, k.client, shell("exec busybox cat")), start(t, k.client, nine)
	for _, p := range []*Process{believed, certain} {
		echo(t, p, 1)
	}
	if err := k.Nodes()[0].KillKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := certain.Wait(); !lost(err) {
		t.Errorf("a program whose kubelet is killed: %v", err)
	} else {
		t.Logf("after %v: %v", time.Since(begun), err)
	}
	t.Logf("a program whose success is 0: %v", believed.Wait())
	begun = time.Now()
	_, err := k.run(t, shell("true"))
	if err == nil {
		t.Error("a program runs without a kubelet")
	}
	t.Logf("without a kubelet, after %v: %v", time.Since(begun), err)
}
