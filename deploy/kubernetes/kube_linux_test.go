package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) {
	if status, ours := kubernetes.InPod(os.Args[1:]); ours {
		os.Exit(status)
	}
	testkube.Main(m)
}

// user is somebody with a kubeconfig and nettoll.
type user struct {
	cluster *testkube.Cluster
	nettoll string
	env     []string
	config  string   // path of the kubeconfig
	dir     string   // of the experiment
	killed  []string // the namespaces of runs that were killed, which the cluster cleans meanwhile
}

// newUser starts a cluster whose nodes have the image of nettoll, with other programs.
func newUser(t *testing.T, o testkube.Options, with ...string) *user {
	t.Helper()
	testnet.Kube(t)
	workloadtest.Loopback(t)
	u := &user{dir: t.TempDir()}
	u.nettoll = filepath.Join(u.dir, "nettoll")
	if err := testkube.Program(t.Context(), "./cmd/nettoll", u.nettoll); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(u.dir, "nettoll.tar")
	cmd := exec.Command(u.nettoll, "image", "-o", archive, "--name", experiment.DefaultImage, "--with", strings.Join(with, ","))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o.Images = []testkube.Image{{Archive: archive}}
	u.cluster = testkube.New(t, o)
	config, err := u.cluster.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(u.dir, "bin")
	if err := u.cluster.LinkKubectl(bin); err != nil {
		t.Fatal(err)
	}
	u.config = config
	u.env = append(os.Environ(), "KUBECONFIG="+config, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return u
}

// command is a command of nettoll.
func (u *user) command(ctx context.Context, args ...string) (cmd *exec.Cmd, out, said *bytes.Buffer) {
	cmd = exec.CommandContext(ctx, u.nettoll, args...)
	out, said = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = u.env, u.dir, out, said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd, out, said
}

// write writes an experiment.
func (u *user) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(u.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubectl returns the words of an answer of kubectl.
func (u *user) kubectl(t *testing.T, args ...string) []string {
	t.Helper()
	text, err := u.cluster.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(text)
}

// left returns what nettoll has in the cluster, but for runs that were killed: namespaces, Jobs, DaemonSets and pods.
func (u *user) left(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(u.kubectl(t, "get", "namespaces,jobs,daemonsets,pods", "--all-namespaces", "--selector",
		"app.kubernetes.io/managed-by=nettoll", "-o", "name"), func(name string) bool {
		return slices.ContainsFunc(u.killed, func(of string) bool {
			return strings.Contains(name, strings.TrimPrefix(of, "nettoll-"))
		})
	})
}

// gone waits until f returns nothing.
func gone(t *testing.T, within time.Duration, f func() []string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		left := f()
		if len(left) == 0 {
			return
		}
		if time.Since(began) > within {
			t.Errorf("after %v there are still %v", within, left)
			return
		}
	}
}

// records reads the records of a run.
func records(t *testing.T, dir string) (measure.Run, *measure.Log) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, control.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	var run measure.Run
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, control.RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, problems, err := measure.Read(f)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return run, log
}

// enforced wants all proofs to hold, something to be refused on each of some paths, and the time until that was so.
func enforced(t *testing.T, log *measure.Log, paths int) {
	t.Helper()
	refused, times := map[string]int{}, 0 // by how sinks are reached
	for _, p := range log.Proofs {
		if !p.OK {
			t.Errorf("%s: %s: %s", p.Lab, p.Claim, p.Detail)
		} else if p.Name == proof.Refuses {
			refused[viaOf(p.Lab)]++
		}
	}
	for _, l := range log.Labs {
		if l.Metrics[filter.EnforceTime] > 0 {
			times++
		}
	}
	if len(refused) != paths || times == 0 {
		t.Errorf("proofs that something is refused: %v, times until that was so: %d; want some of each of %d "+
			"paths", refused, times, paths)
	}
}

// open wants all proofs of a run without policies to hold, and every pod to be reached by every other one.
func open(t *testing.T, log *measure.Log) {
	t.Helper()
	passed := 0
	for _, p := range log.Proofs {
		if !p.OK {
			t.Errorf("%s: %s: %s", p.Lab, p.Claim, p.Detail)
		} else if p.Name == proof.Passes {
			passed++
		}
	}
	if passed == 0 {
		t.Error("that packets pass was not proved")
	}
	if reaches(t, log, func(string, string, string) measure.Reach { return measure.ReachOpen }) == 0 {
		t.Error("who reaches whom was not tried")
	}
}

// reaches compares who reaches whom with what is wanted, wherever that was tried, and returns how often it was.
func reaches(t *testing.T, log *measure.Log, want func(lab, from, to string) measure.Reach) (tried int) {
	t.Helper()
	return reachesInTime(t, log, want, false)
}

// reachesInTime is [reaches], also if there was no time for all. What pairs send is tried in any case.
func reachesInTime(t *testing.T, log *measure.Log, want func(lab, from, to string) measure.Reach, short bool,
) (tried int) {
	t.Helper()
	for _, m := range log.Matrices {
		if strings.HasPrefix(m.Lab, "host/") {
			if m.NotTried != proof.ErrShared.Error() {
				t.Errorf("%s: who reaches whom: not tried: %q, want that its pods share the network of their node", m.Lab, m.NotTried)
			}
			continue
		}
		if m.NotTried != "" || m.Untold != "" || len(m.Untried) == 0 {
			t.Errorf("%s: who reaches whom: not tried: %q, untold: %q, in part: %q", m.Lab, m.NotTried, m.Untold, m.Untried)
			continue
		}
		tried++
		for family := range m.Cells {
			for i, from := range m.From {
				for k, to := range m.From {
					got := m.At(family, i, k)
					if done, of := m.All(); short && done < of && got == measure.ReachNotTried && from[3:] != to[3:] {
						continue
					}
					if i != k && got != want(m.Lab, from, to) {
						t.Errorf("%s, %s: from %s to %s: %c, want %c; leaks %q, missing %q", m.Lab, family, from, to, got,
							want(m.Lab, from, to), m.Leaks, m.Missing)
					}
				}
			}
		}
	}
	return tried
}

// leaked returns how many packets have leaked that who reaches whom was tried with.
func leaked(log *measure.Log) (packets int) {
	for _, m := range log.Matrices {
		packets += m.LeaksAll
	}
	return packets
}

// A user measures on a cluster of two nodes, with what can go wrong there.
func TestCluster(t *testing.T) {
	// With a proxy, services have addresses that work.
	u := newUser(t, testkube.Options{Proxy: true}, "iperf3")
	// Of runs that were killed: the cluster has the time of all other runs for them.
	var early, late ended
	t.Run("killed first", func(t *testing.T) { early = u.killFirst(t) })
	t.Run("killed", func(t *testing.T) { late = u.kill(t) })
	t.Run("example", func(t *testing.T) { u.example(t) })
	t.Run("drivers", func(t *testing.T) { u.drivers(t) })
	t.Run("own namespace", func(t *testing.T) { u.ownNamespace(t) })
	t.Run("monitor", func(t *testing.T) { u.monitor(t) })
	t.Run("monitor refused", func(t *testing.T) { u.unmonitored(t) })
	t.Run("restricted", func(t *testing.T) { u.restricted(t) })
	t.Run("no image", func(t *testing.T) { u.noImage(t) })
	t.Run("few nodes", func(t *testing.T) { u.fewNodes(t) })
	t.Run("resumed", func(t *testing.T) { u.resumed(t) })
	t.Run("policy", func(t *testing.T) { u.policy(t) })
	t.Run("policy unenforced", func(t *testing.T) { u.unenforced(t) })
	t.Run("rights", func(t *testing.T) { u.rights(t) })
	t.Run("unattached", func(t *testing.T) { u.unattached(t) })
	t.Run("services", func(t *testing.T) { u.services(t) })
	t.Run("several", func(t *testing.T) { u.several(t) })
	t.Run("restarts", func(t *testing.T) { u.restarts(t) })
	t.Run("quota", func(t *testing.T) { u.quota(t) })
	t.Run("evicted", func(t *testing.T) { u.evicted(t) })
	t.Run("node lost", func(t *testing.T) { u.nodeLost(t) })
	t.Run("cleaned", func(t *testing.T) { u.cleaned(t, early, late) })
	t.Run("killed early", func(t *testing.T) { u.killedEarly(t) })
	t.Run("killed pending", func(t *testing.T) { u.killedPending(t) })
}

// Calico enforces policies. If it changes addresses, paths that need them are not measured.
func TestPolicies(t *testing.T) {
	testnet.KubeFull(t, "it needs a network plugin that is built for minutes")
	u := newUser(t, testkube.Options{Network: testkube.Calico, Proxy: true})
	u.policies(t, "pod", "clusterip", "nodeport")
	t.Run("addresses changed", func(t *testing.T) { u.masked(t) })
}

// A network plugin that enforces policies does so in time, and what they refuse does not pass: in both families, on one
// node and across nodes, and between pairs. A policy of somebody else that allows more is a leak, which is found.
func (u *user) policies(t *testing.T, vias ...string) {
	const text = "baseline: cni\nfactors: {network: [{cni: {via: %s}}], filter: {networkpolicy: {rules: 3}}, pairs: 2, " +
		"family: [ipv4, ipv6]}\nworkloads: udp-rr\n"
	t.Run("hold", func(t *testing.T) {
		dir := filepath.Join(u.dir, "hold")
		ways := "[" + strings.Join(vias, ", ") + "]"
		cmd, out, said := u.command(t.Context(), "run", u.write(t, "hold.yaml", "hosts: {kind: kubernetes, nodes: 2}\n"+
			fmt.Sprintf(text, ways)), "--time", "2s", "--proof-budget", "95%", "-o", dir) // for all ways
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, said)
		}
		_, log := records(t, dir)
		enforced(t, log, len(vias))
		if reaches(t, log, func(lab, from, to string) measure.Reach {
			switch {
			case !strings.Contains(lab, "networkpolicy"):
				return measure.ReachOpen
			case from[:3] == "src" && to == "snk"+from[3:]:
				return measure.ReachAllowed
			}
			return measure.ReachRefused
		}) == 0 {
			t.Error("who reaches whom was not tried")
		}
		t.Logf("%s", out)
	})
	t.Run("times", func(t *testing.T) { u.policyTimes(t) })
	t.Run("too wide", func(t *testing.T) {
		u.kubectl(t, "create", "namespace", "wide")
		if err := u.cluster.Apply(t.Context(), `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
			"metadata": {"name": "wide", "namespace": "wide"}, "spec": {"podSelector": {}, "ingress": [{}], "egress": [{}],
			"policyTypes": ["Ingress", "Egress"]}}`); err != nil {
			t.Fatal(err)
		}
		cmd, out, said := u.command(t.Context(), "run", u.write(t, "wide.yaml",
			"hosts: {kind: kubernetes, nodes: 2, namespace: wide}\n"+fmt.Sprintf(text, "pod")), "--time", "2s", "-o",
			filepath.Join(u.dir, "wide"))
		_ = cmd.Run() // its status says it
		if cmd.ProcessState.ExitCode() != 4 ||
			!strings.Contains(strings.Join(strings.Fields(out.String()), " "), "the filter allows packets that it must refuse") {
			t.Errorf("status %d, want 4 and the leak:\n%s\n%s", cmd.ProcessState.ExitCode(), out, said)
		}
		if _, log := records(t, filepath.Join(u.dir, "wide")); leaked(log) == 0 {
			t.Errorf("who reaches whom shows no leak:\n%s", out)
		}
		if kept := u.kubectl(t, "get", "networkpolicies", "--namespace", "wide", "-o", "name"); len(kept) != 1 {
			t.Errorf("policies of the user's namespace: %v, want the own one", kept)
		}
	})
}

// uplink is the device of a node to the others.
const uplink = "eth0"

// spaced are the spaces of a table.
var spaced = regexp.MustCompile(`(\S) {2,}`)
