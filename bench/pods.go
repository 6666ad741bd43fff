package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/measure"
)

const (
	// podImage is the image of the pods: nettoll and the others, with their libraries.
	podImage = "bench:pods"
	// podVisit is how long each program measures. iperf3 and netperf take whole seconds, and what iperf3 omits.
	podVisit, podOmit = 2, 1 // s
	podPayload        = 64   // bytes
	podMessage        = 128 << 10
)

// A podProgram measures one figure. It is executed in the source's pod.
type podProgram struct {
	command func(sink string) []string
	read    func([]byte) (float64, error)
}

// A podComparison is a figure that nettoll and another program measure in the same pods.
type podComparison struct {
	what, other  string
	ours, theirs podProgram
	text         func(float64) string
}

func (b *bench) podComparisons() []podComparison {
	both := fmt.Sprintf("%d,%d", b.sources[0], b.sinks[0])
	source := func(workload, metric string) podProgram {
		return podProgram{func(sink string) []string {
			return []string{
				"/nettoll", "source", workload, sink, "--cpu", strconv.Itoa(b.sources[0]), "--interval", "1s",
				"--time", strconv.Itoa(podVisit) + "s", "--output", "json",
			}
		}, func(said []byte) (float64, error) {
			var result struct{ Metrics map[string]float64 }
			if err := json.Unmarshal(said, &result); err != nil {
				return 0, err
			}
			return positive(result.Metrics[metric])
		}}
	}
	return []podComparison{
		{
			fmt.Sprintf("tcp-stream, 1 flow, %d bytes a call", podMessage), "iperf3",
			source(fmt.Sprintf("tcp-stream(message=%d,congestion=%s)", podMessage, congestion), "goodput"),
			podProgram{func(sink string) []string {
				return []string{
					"iperf3", "-c", sink, "-C", congestion, "-l", strconv.Itoa(podMessage), "-A", both,
					"-O", strconv.Itoa(podOmit), "-t", strconv.Itoa(podVisit), "-J",
				}
			}, func(said []byte) (float64, error) {
				var result struct {
					End struct {
						Received struct {
							Rate float64 `json:"bits_per_second"`
						} `json:"sum_received"`
					}
				}
				if err := json.Unmarshal(said, &result); err != nil {
					return 0, err
				}
				return positive(result.End.Received.Rate)
			}},
			bitrate,
		},
		{
			fmt.Sprintf("udp-rr, %d bytes, both ends sleep: round trips a second", podPayload), "netperf",
			source(fmt.Sprintf("udp-rr(payload=%d,mode=wait)", podPayload), "transaction_rate"),
			netperf("UDP_RR", both), perSecond,
		},
		{
			fmt.Sprintf("tcp-rr, %d bytes, both ends sleep: round trips a second", podPayload), "netperf",
			source(fmt.Sprintf("tcp-rr(payload=%d,mode=wait)", podPayload), "transaction_rate"),
			netperf("TCP_RR", both), perSecond,
		},
	}
}

// netperf is one of its request/response tests.
func netperf(test, cpus string) podProgram {
	rate := regexp.MustCompile(`THROUGHPUT=([0-9.]+)`)
	return podProgram{func(sink string) []string {
		return []string{
			"netperf", "-H", sink, "-T", cpus, "-l", strconv.Itoa(podVisit), "-P", "0", "-t", test, "--",
			"-r", fmt.Sprintf("%d,%d", podPayload, podPayload), "-k", "THROUGHPUT",
		}
	}, func(said []byte) (float64, error) {
		found := rate.FindSubmatch(said)
		if found == nil {
			return 0, fmt.Errorf("netperf says %q", said)
		}
		x, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, err
		}
		return positive(x)
	}}
}

// positive refuses a figure that is missing.
func positive(x float64) (float64, error) {
	if !(x > 0) {
		return 0, errors.New("the program names no figure")
	}
	return x, nil
}

// pods compares nettoll with iperf3 and netperf in the same pods of a Kubernetes cluster, on one node and on two. A
// group has pods of its own.
func (b *bench) pods(ctx context.Context) (err error) {
	if err := testkube.MissingFor(testkube.Bridge); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "nettoll-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files := map[string]string{"/nettoll": filepath.Join(dir, "nettoll")}
	if err := testkube.Program(ctx, "./cmd/nettoll", files["/nettoll"]); err != nil {
		return err
	}
	for _, name := range []string{"iperf3", "netperf", "netserver"} {
		if err := addProgram(ctx, files, name); err != nil {
			return err
		}
	}
	cluster, err := testkube.Start(ctx, testkube.Options{
		Images: []testkube.Image{{Name: podImage, Files: files}},
		Say:    func(what string) { b.say("pods: %s", what) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	all := b.podComparisons()
	places := []struct {
		name string
		sink int // the node of the sink's pod; the source's is on the first
	}{{"one node", 0}, {"two nodes", 1}}
	found := make([][]figures, len(places))
	for i := range found {
		found[i] = make([]figures, len(all))
	}
	for group := range b.groups {
		b.say("pods: nettoll, iperf3 and netperf, group %d of %d", group+1, b.groups)
		for i, place := range places {
			sink, err := b.startPods(ctx, cluster, place.sink)
			if err != nil {
				return err
			}
			for j, c := range all {
				f := &found[i][j]
				f.ratios = append(f.ratios, nil)
				for range b.rounds {
					var got [2]float64
					for _, k := range b.random.Perm(2) {
						if got[k], err = inPod(ctx, cluster, []podProgram{c.ours, c.theirs}[k], sink); err != nil {
							return fmt.Errorf("%s, %s: %w", c.what, place.name, err)
						}
					}
					f.ours, f.theirs = append(f.ours, got[0]), append(f.theirs, got[1])
					f.ratios[group] = append(f.ratios[group], measure.LogRatio(got[0], got[1]))
				}
			}
		}
	}
	for i, place := range places {
		for j, c := range all {
			f := found[i][j]
			r := row{
				what: fmt.Sprintf("%s, pods on %s; other: %s", c.what, place.name, c.other),
				ours: c.text(measure.Median(f.ours)), theirs: c.text(measure.Median(f.theirs)), goal: "within 5 %",
			}
			r.ratio, r.met = agreed(f.ratios)
			b.table.add(r)
		}
	}
	b.table.note("pods: %d groups of %d rounds, each group in pods of its own (plugin bridge; the nodes route "+
		"between them); visits of %d s in random order, all programs on CPUs %v and %v, %s. iperf3 omits its first second, "+
		"netperf nothing.", b.groups, b.rounds, podVisit, b.sources[0], b.sinks[0], congestion)
	return nil
}

// addProgram adds a program of this machine to the files of an image, with the libraries that it is linked with.
func addProgram(ctx context.Context, files map[string]string, name string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return &linux.UnsupportedError{
			What: "compare in pods", Missing: fmt.Sprintf("program %q", name), Hint: "scripts/needs", Err: err,
		}
	}
	files["/bin/"+name] = path
	said, err := exec.CommandContext(ctx, "ldd", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ldd %s: %w: %s", path, err, said)
	}
	for _, found := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllSubmatch(said, -1) {
		files[string(found[1])] = string(found[1])
	}
	return nil
}

// podPair is a source's and a sink's pod: a container for each program that serves, which share the pod's network. They
// may choose a congestion control that the system does not let everybody choose.
const podPair = `
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "source"}, "spec": {
    "nodeName": %[1]q, "terminationGracePeriodSeconds": 0, "containers": [
      {"name": "programs", "image": %[3]q, "imagePullPolicy": "Never", %[5]s, "command": ["/nettoll", "sink"]}]}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sink"}, "spec": {
    "nodeName": %[2]q, "terminationGracePeriodSeconds": 0, "containers": [
      {"name": "nettoll", "image": %[3]q, "imagePullPolicy": "Never", %[5]s,
        "command": ["/nettoll", "sink", "--cpu", "%[4]d"]},
      {"name": "iperf3", "image": %[3]q, "imagePullPolicy": "Never", %[5]s, "command": ["iperf3", "-s"]},
      {"name": "netperf", "image": %[3]q, "imagePullPolicy": "Never", %[5]s, "command": ["netserver", "-D"]}]}}]}`

// startPods replaces the pods, and returns the address of the sink's.
func (b *bench) startPods(ctx context.Context, cluster *testkube.Cluster, sink int) (string, error) {
	if _, err := cluster.Kubectl(ctx, "delete", "pods", "--all", "--wait"); err != nil {
		return "", err
	}
	nodes := cluster.Nodes()
	text := fmt.Sprintf(podPair, nodes[0].Name(), nodes[sink].Name(), podImage, b.sinks[0],
		`"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}`)
	if err := cluster.Apply(ctx, text); err != nil {
		return "", err
	}
	if _, err := cluster.Kubectl(ctx, "wait", "--for=condition=Ready", "pods", "--all", "--timeout=1m"); err != nil {
		return "", err
	}
	address, err := cluster.Kubectl(ctx, "get", "pod", "sink", "-o", "jsonpath={.status.podIP}")
	return strings.TrimSpace(address), err
}

// inPod runs a program in the source's pod.
func inPod(ctx context.Context, cluster *testkube.Cluster, p podProgram, sink string) (float64, error) {
	for try := 1; ; try++ {
		time.Sleep(settle)
		said, err := cluster.Kubectl(ctx, append([]string{"exec", "source", "--"}, p.command(sink)...)...)
		var x float64
		if err == nil {
			x, err = p.read([]byte(said))
		}
		if err == nil || try == tries || ctx.Err() != nil {
			return x, err
		}
	}
}
