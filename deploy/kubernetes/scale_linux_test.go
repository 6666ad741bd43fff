package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	pods "github.com/nettoll/nettoll/pod"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// controlCommand makes labs of a [scale], and says what that took.
const controlCommand = "scale"

// InPod is the main function of a process that kwok executes in a fake pod, and of the controller of labs in them. Both
// have to be the same program, as in a run.
func InPod(args []string) (status int, ours bool) {
	if len(args) == 0 {
		return 0, false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	out := struct{ io.WriteCloser }{os.Stdout}
	var err error
	switch args[0] {
	case ScoutCommand:
		err = Scout(ctx, os.Stdin, out)
	case workerCommand:
		err = protocol.Serve(ctx, os.Stdin, out, worker.New(worker.Config{}).Methods())
	case controlCommand:
		var s scale
		if err = json.Unmarshal([]byte(args[1]), &s); err == nil {
			err = s.control(ctx, json.NewEncoder(out))
		}
	case "config", "proxy":
		err = fakeKubectl(args)
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1, true
	}
	return 0, true
}

// A scale is how large labs are. They stand at the same time, one for each placement: the sink of a pair is on the host
// of its source, or on the next one.
type scale struct {
	Hosts, Pairs int // of each lab
	Network      string
	Placements   []string
	// Workers says that workers run in the pods. Otherwise labs are placed only.
	Workers bool
	// Pause has the controller wait for a byte of its input after the last lab was placed, and after all were removed.
	Pause bool
	// Unreachable says that kwok starts again meanwhile.
	Unreachable bool
}

// A step is what a controller has done.
type step struct {
	What    string
	Took    float64   // s
	CPU     float64   // s of this process
	Peak    int64     // bytes of its memory, so far
	Pods    [][]found // that were placed, by host
	Kubectl struct {
		CPU  float64
		Peak int64
	}
	Said []string
}

type found struct{ Name, Node string }

// spec is a lab.
func (s scale) spec(placement string) (deploy.Spec, error) {
	of, err := pods.Kinds().Parse(s.Network)
	if err == nil {
		of, err = pods.Kinds().Complete(of)
	}
	spec := deploy.Spec{
		ID: s.Network + "/" + placement, Stack: of, Net: network.NewLab(s.Hosts, 0), Families: []string{"ipv4"},
	}
	add := func(h, pair int, name string) network.Spot {
		all := &spec.Net.Hosts[h].Containers
		first := uint16(20000 + 2*len(*all))
		*all = append(*all, network.Container{
			Name: fmt.Sprintf("%s%d", name, pair), Index: len(*all), Ports: network.Ports{First: first, Last: first + 1},
		})
		return network.Spot{Host: h, Container: len(*all) - 1}
	}
	for i := range s.Pairs {
		source := i % s.Hosts
		sink := source
		if placement == "cross-host" {
			sink = (source + 1) % s.Hosts
		}
		spec.Pairs = append(spec.Pairs, network.Pair{Source: add(source, i, "src"), Sink: add(sink, i, "snk")})
	}
	return spec, err
}

// control makes the labs.
func (s scale) control(ctx context.Context, out *json.Encoder) (err error) {
	var said []string
	d := &Deployment{
		Options: kubectl.Options{Program: os.Getenv("SCALE_KUBECTL")}, Image: "nettoll:latest", Hosts: s.Hosts,
		Privileged: s.Network == "host",
		Say:        func(text string) { said = append(said, text) },
	}
	began, cpu := time.Now(), own()
	tell := func(what string, of *lab) error {
		now := own()
		t := step{What: what, Took: time.Since(began).Seconds(), CPU: now - cpu, Said: said, Peak: peak("self")}
		if of != nil {
			t.Pods = make([][]found, len(of.pods))
			for h, pods := range of.pods {
				for _, p := range pods {
					t.Pods[h] = append(t.Pods[h], found{p.Metadata.Name, p.Spec.Node})
				}
			}
		}
		t.Kubectl.CPU, t.Kubectl.Peak = proxied()
		err := out.Encode(t)
		began, cpu, said = time.Now(), own(), nil
		return err
	}
	if s.Workers {
		err = d.open(ctx)
	} else {
		err = d.placeOnly(ctx)
	}
	if err = errors.Join(err, tell("open", nil)); err != nil {
		return errors.Join(err, d.Close())
	}
	if err := s.labs(ctx, d, tell); err != nil {
		return errors.Join(err, d.Close())
	}
	if err := d.Close(); err != nil {
		return err
	}
	return tell("close", nil)
}

// placeOnly is open without questions to scouts.
func (d *Deployment) placeOnly(ctx context.Context) (err error) {
	if d.client, err = kubectl.Open(ctx, d.Options); err != nil {
		return err
	}
	return d.station(ctx)
}

// labs makes the labs, looks at them, and removes them.
func (s scale) labs(ctx context.Context, d *Deployment, tell func(string, *lab) error) error {
	g, err := d.Begin(traffic.Layout{})
	if err != nil {
		return err
	}
	var all []*lab
	closeAll := func() {
		for _, l := range all {
			l.Close()
		}
	}
	defer closeAll()
	for _, placement := range s.Placements {
		spec, err := s.spec(placement)
		if err != nil {
			return err
		}
		l := g.(*generation).newLab(spec) //nolint:forcetypeassert // it is what Begin returns
		all = append(all, l)
		err = l.place(ctx)
		if err = errors.Join(err, tell("place "+placement, l)); err != nil {
			return err
		}
	}
	s.wait()
	if s.Workers {
		for _, l := range all {
			err = errors.Join(err, l.settle(ctx))
		}
		if err = errors.Join(err, tell("settle", nil)); err != nil {
			return err
		}
		time.Sleep(idle)
		if err := tell("idle", nil); err != nil {
			return err
		}
	}
	for _, l := range all {
		err = errors.Join(err, l.Verify(ctx))
	}
	if err = errors.Join(err, tell("verify", nil)); err != nil {
		return err
	}
	closeAll()
	all = nil
	err = tell("remove", nil)
	s.wait()
	return errors.Join(err, g.Close())
}

// wait waits for a byte of the input, if the controller is to pause.
func (s scale) wait() {
	if s.Pause {
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

// idle is how long a controller does nothing while its workers are there.
const idle = 10 * time.Second

// own is the CPU time of this process, in s.
func own() float64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // it fails for no valid argument
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that a process has had, in bytes.
func peak(pid string) int64 {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	if m := highWater.FindSubmatch(text); m != nil {
		kB, _ := strconv.ParseInt(string(m[1]), 10, 64)
		return kB << 10
	}
	return 0
}

// proxied is the CPU time in s, and the most memory in bytes, of the process that this one has started.
func proxied() (cpu float64, memory int64) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, _ := os.ReadFile(path)
		at := strings.LastIndexByte(string(text), ')')
		f := strings.Fields(string(text[at+1:])) // from the third field on (proc_pid_stat(5))
		if len(f) < 13 || f[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		pid := filepath.Base(filepath.Dir(path))
		cpu, memory = cpu+(user+system)/100, max(memory, peak(pid))
	}
	return cpu, memory
}

// large is a cluster of fake nodes.
type large struct {
	*testkube.Cluster
	program string // kubectl
	env     []string
}

func newLarge(t *testing.T, nodes int) *large {
	t.Helper()
	testnet.Kube(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	workloadtest.Loopback(t)
	began := time.Now()
	c := testkube.New(t, testkube.Options{Fake: nodes, Images: []testkube.Image{{
		Name: "nettoll:latest", Files: map[string]string{binary: self},
	}}})
	t.Logf("%d fake nodes were ready after %v", nodes, time.Since(began))
	bin := t.TempDir()
	config, err := c.Relay(t.Context())
	if err == nil {
		err = c.LinkKubectl(filepath.Join(bin, "bin"))
	}
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "bin", "kubectl")
	l := &large{c, program, append(os.Environ(), "KUBECONFIG="+config, "SCALE_KUBECTL="+program)}
	// Kwok lists the pods of each node when it starts. Tests count the lists of nettoll.
	for began := time.Now(); l.asked(t)["LIST pods"] < float64(nodes); time.Sleep(look) {
		if time.Since(began) > time.Minute {
			t.Fatalf("kwok has listed pods %.0f times, want once for each of %d nodes", l.asked(t)["LIST pods"], nodes)
		}
	}
	return l
}

// run runs a controller, and calls see after each of its steps.
func (l *large) run(t *testing.T, s scale, see func(s step, of *exec.Cmd, goOn func())) error {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", controlCommand, string(text))
	cmd.Env = l.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = process.Start(cmd, process.Options{}) // it is killed with this process
	}
	if err != nil {
		t.Fatal(err)
	}
	began, asked := time.Now(), l.asked(t)
	for steps := json.NewDecoder(out); ; {
		var one step
		if err := steps.Decode(&one); err != nil {
			break
		}
		t.Logf("%s: %.1f s, CPU %.2f s, peak %d MB; kubectl so far CPU %.2f s, peak %d MB; said %q", one.What, one.Took,
			one.CPU, one.Peak>>20, one.Kubectl.CPU, one.Kubectl.Peak>>20, one.Said)
		if see != nil {
			see(one, cmd, func() {
				if _, err := in.Write([]byte{'\n'}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	err = cmd.Wait()
	made := since(asked, l.asked(t))
	t.Logf("requests: %v", made)
	// Kwok lists the pods of each node when it starts.
	if most := 100 + 2*time.Since(began)/look; made["LIST pods"] > float64(most) && !s.Unreachable {
		t.Errorf("pods were listed %.0f times, want at most %d: two lists at a time", made["LIST pods"], most)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	return nil
}

// requests are those that nobody but the controller makes, apart from some.
var requests = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="` +
	`(jobs|pods|events|services|networkpolicies)".*subresource="(exec|)".*verb="(LIST|GET|POST|DELETE|CONNECT)".*\} (\S+)$`)

// asked counts the requests that the API server has answered.
func (l *large) asked(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := l.Kubectl(t.Context(), "get", "--raw=/metrics")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, m := range requests.FindAllStringSubmatch(text, -1) {
		what := strings.Trim(m[3]+" "+m[1]+"/"+m[2], "/")
		if n, err := strconv.ParseFloat(m[4], 64); err == nil && !slices.Contains([]string{
			"POST pods", "DELETE pods", "GET pods", "POST events", // those of the cluster itself
		}, what) {
			all[what] += n
		}
	}
	return all
}

func since(before, after map[string]float64) map[string]float64 {
	all := map[string]float64{}
	for what, n := range after {
		if n > before[what] {
			all[what] = n - before[what]
		}
	}
	return all
}

// ours are the objects of a kind in the cluster that nettoll has made, and how many.
func (l *large) ours(t *testing.T, kinds string) []string {
	t.Helper()
	text, err := l.Kubectl(t.Context(), "get", kinds, "--all-namespaces", "--selector", managedBy+"="+manager, "-o",
		"name")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(text)
}

// made are the kinds of what runs make, besides namespaces.
const made = "jobs,pods,services,networkpolicies"

// vanish waits until nothing of some kinds is left.
func (l *large) vanish(t *testing.T, kinds string, within time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		left := l.ours(t, kinds)
		if len(left) == 0 {
			t.Logf("nothing is left after %v", time.Since(began))
			return
		}
		if time.Since(began) > within {
			t.Errorf("after %v there are still %d objects: %q, …", within, len(left), left[:min(len(left), 5)])
			return
		}
	}
}

// placed wants the pods of labs to be those that the cluster has, to run, and to be where they should be: those of a
// host on one node in all labs, and those of another one on another node.
func (l *large) placed(t *testing.T, s scale, got ...[][]found) {
	t.Helper()
	text, err := l.Kubectl(t.Context(), "get", "pods", "--all-namespaces", "--selector", labLabel, "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.phase}{"\n"}{end}`)
	if err != nil {
		t.Fatal(err)
	}
	there := map[found]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "Running" {
			t.Fatalf("a pod does not run: %q", line)
		}
		there[found{f[0], f[1]}] = true
	}
	if want := 2 * s.Pairs * len(got); len(there) != want {
		t.Errorf("%d pods run, want %d", len(there), want)
	}
	hosts := map[string]int{} // by node
	for _, lab := range got {
		for h, pods := range lab {
			for _, p := range pods {
				if at, known := hosts[p.Node]; known && at != h || p.Node != pods[0].Node || !there[p] {
					t.Errorf("host %d has pod %+v; its first one: %+v; there: %v", h+1, p, pods[0], there[p])
				}
				hosts[p.Node] = h
				delete(there, p)
			}
		}
	}
	if len(hosts) != s.Hosts {
		t.Errorf("the pods of %d hosts are on %d nodes", s.Hosts, len(hosts))
	}
	if len(there) > 0 {
		t.Errorf("%d pods run that nettoll has not found", len(there))
	}
}

// Pods of labs on a thousand nodes, none of which runs a process: workers are processes of the control plane, and calls
// to them pass through the exec API. There is no traffic.
func TestScale(t *testing.T) {
	testnet.KubeFull(t, "it builds kwok")
	l := newLarge(t, 1000)
	// 250 nodes are about as many as a run may have (network.MaxHosts).
	t.Run("workers", func(t *testing.T) {
		s := scale{Hosts: 250, Pairs: 500, Network: "host", Placements: []string{"cross-host"}, Workers: true}
		if err := l.run(t, s, nil); err != nil {
			t.Error(err)
		}
		l.vanish(t, made+",namespaces", 2*time.Minute)
	})
	t.Run("pods", func(t *testing.T) {
		s := scale{Hosts: 1000, Pairs: 1250, Network: "cni", Placements: []string{"same-host", "cross-host"}, Pause: true}
		var labs [][][]found
		if err := l.run(t, s, func(one step, _ *exec.Cmd, goOn func()) {
			if one.Pods != nil {
				labs = append(labs, one.Pods)
			}
			switch one.What {
			case "place cross-host":
				l.placed(t, s, labs...)
				goOn()
			case "remove":
				if left := l.ours(t, "pods"); len(left) != s.Hosts { // the scouts
					t.Errorf("%d pods are left, want %d", len(left), s.Hosts)
				}
				goOn()
			}
		}); err != nil {
			t.Error(err)
		}
		l.vanish(t, made+",namespaces", 5*time.Minute)
	})
	t.Run("pairs", func(t *testing.T) {
		s := scale{Hosts: 2, Pairs: 100, Network: "host", Placements: []string{"cross-host"}, Workers: true}
		if err := l.run(t, s, func(one step, _ *exec.Cmd, _ func()) {
			if one.What == "settle" && one.Took > 60 {
				t.Errorf("the workers of 100 pairs took %.0f s, want at most 60 s", one.Took)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		s := scale{
			Hosts: 3, Pairs: 3, Network: "host", Placements: []string{"cross-host"}, Workers: true, Pause: true,
			Unreachable: true,
		}
		var named []string
		err := l.run(t, s, func(one step, _ *exec.Cmd, goOn func()) {
			switch one.What {
			case "place cross-host":
				for _, pods := range one.Pods {
					for _, p := range pods {
						named = append(named, p.Name)
					}
				}
				if err := l.KillFakes(t.Context()); err != nil {
					t.Error(err)
				}
				goOn()
			case "settle":
				if one.Took > 30 {
					t.Errorf("it took %v s to see that no kubelet answers", one.Took)
				}
				if err := l.StartFakes(t.Context()); err != nil { // pods can go
					t.Error(err)
				}
			}
		})
		if err == nil || !slices.ContainsFunc(named, func(name string) bool { return strings.Contains(err.Error(), name) }) {
			t.Errorf("%v, want an error with one of %q", err, named)
		}
		t.Log(err)
		l.vanish(t, made+",namespaces", 2*time.Minute)
	})
	t.Run("killed", func(t *testing.T) {
		s := scale{
			Hosts: 100, Pairs: 500, Network: "cni(via=clusterip)+networkpolicy", Placements: []string{"cross-host"}, Pause: true,
		}
		_ = l.run(t, s, func(one step, cmd *exec.Cmd, _ func()) { // it is killed
			if one.Pods != nil {
				l.placed(t, s, one.Pods)
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
		})
		if n, want := len(l.ours(t, made)), 1001+1100+500+1001; n != want {
			t.Errorf("%d objects are left, want %d", n, want)
		}
		if err := l.EndPods(t.Context()); err != nil { // as first processes do that are left alone
			t.Fatal(err)
		}
		l.vanish(t, made, keep*time.Second+2*time.Minute)
		done, err := Clean(t.Context(), kubectl.Options{Program: l.program, Env: l.env})
		if err != nil || len(done.Removed) > 1 {
			t.Errorf("cleaned: %+v, %v", done, err)
		}
		l.vanish(t, made+",namespaces", 2*time.Minute)
	})
}
