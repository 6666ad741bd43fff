package testkube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testkube"
)

// The pods of the test of policies: clients on the node of the server and on the other one.
const (
	server = "server"
	// knocks is where the server writes who connected to its port for knocks, and when: the uptime of the machine.
	knocks    = "/tmp/knocks"
	knockPort = 5000
)

func friends() []string   { return []string{"friend-near", "friend-far"} }
func strangers() []string { return []string{"stranger-near", "stranger-far"} }

func TestUnknownNetwork(t *testing.T) {
	_, err := testkube.Start(t.Context(), testkube.Options{Network: "calicoo"})
	const want = `invalid network "calicoo" (valid: bridge, calico, admin, flannel, flannel-host-gw, cilium)`
	if err == nil || err.Error() != want {
		t.Errorf("Start: %v, want %s", err, want)
	}
}

// policy is a NetworkPolicy that lets into the server what a rule says, and nothing else.
func policy(name, rule string) string {
	return fmt.Sprintf(`{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": %q}, "spec": {
		"podSelector": {"matchLabels": {"pod": %q}}, "policyTypes": ["Ingress"], "ingress": [%s]}}`, name, server, rule)
}

// A NetworkPolicy holds for TCP and UDP, in both families, on one node and on two, as long as it is there.
func testPolicy(t *testing.T, c *testkube.Cluster) {
	listen := fmt.Sprintf(`busybox nc -ll -p %d -e busybox sh -c 'read who; read up idle </proc/uptime; echo $who $up >>%s' &
		exec nettoll sink`, knockPort, knocks)
	pods := []string{pod(server, "n1", "/bin/busybox", "sh", "-c", listen)}
	for _, names := range [][]string{friends(), strangers()} {
		for i, name := range names {
			pods = append(pods, pod(name, c.Nodes()[i].Name(), "/bin/busybox", "cat"))
		}
	}
	run(t, c, pods...)
	defer kubectl(t, c, "delete", "pods,networkpolicies", "--all", "--timeout=60s")
	all := slices.Concat(friends(), strangers())
	reach(t, c, all, true)

	api, url := client(t, c)
	url += "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
	knock(t, c, strangers())
	ask(t, api, http.MethodPost, url, policy("friends", `{"from": [{"podSelector": {"matchExpressions": [
		{"key": "pod", "operator": "In", "values": ["`+strings.Join(friends(), `", "`)+`"]}]}}]}`))
	answered := uptime(t)
	// Everybody may ask for trials by TCP, so that the sink itself says what arrives of their traffic, at other ports.
	ask(t, api, http.MethodPost, url, policy("line", `{"ports": [{"protocol": "TCP", "port": 8655}]}`))
	for _, name := range strangers() {
		t.Logf("%s: the last connection was made %.2f s after the API server had answered", name, silence(t, c, name)-answered)
	}
	reach(t, c, friends(), true)
	reach(t, c, strangers(), false)

	for _, name := range []string{"line", "friends"} {
		ask(t, api, http.MethodDelete, url+"/"+name, "")
	}
	answered = uptime(t)
	for _, name := range strangers() {
		t.Logf("%s: the next connection was made %.2f s after the API server had answered (it tries once a second)", name,
			again(t, c, name, answered)-answered)
	}
	reach(t, c, all, true)
}

// ask sends a request to the API server.
func ask(t *testing.T, api *http.Client, method, url, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := api.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s, %v: %s", method, url, response.Status, err, text)
	}
}

// trial has a pod send traffic to the sink, and returns a metric of what arrived there, which is positive, or the error of
// the source.
func trial(t *testing.T, c *testkube.Cluster, from, workload, to, metric string) (float64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := c.Kubectl(ctx, "exec", from, "--", "/bin/nettoll", "source", workload, to, "--interval", "300ms", "--time",
		"300ms", "--output", "json")
	if err != nil {
		return 0, err
	}
	var result struct{ Metrics map[string]float64 }
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		return 0, fmt.Errorf("%w in %s", err, out)
	}
	if result.Metrics[metric] <= 0 {
		return 0, fmt.Errorf("no %s in %s", metric, out)
	}
	return result.Metrics[metric], nil
}

// reach wants each of these pods to reach the server by TCP and UDP in both families, or by none of them.
func reach(t *testing.T, c *testkube.Cluster, from []string, want bool) {
	t.Helper()
	for _, workload := range []struct{ name, metric, blocked string }{
		{"tcp-stream", "goodput", "i/o timeout"},
		{"udp-rate", "packet_rate", "nothing arrives that is sent"},
	} {
		for _, to := range addresses(t, c, server) {
			for _, name := range from {
				got, err := trial(t, c, name, workload.name, to, workload.metric)
				switch {
				case want && err != nil:
					t.Errorf("%s from %s to %s: %v", workload.name, name, to, err)
				case !want && err == nil:
					t.Errorf("%s from %s to %s: %s %.3g, which a policy forbids", workload.name, name, to, workload.metric, got)
				case !want && !strings.Contains(err.Error(), workload.blocked):
					t.Errorf("%s from %s to %s failed, but not as a policy has it fail (%s): %v", workload.name, name, to, workload.blocked, err)
				}
			}
		}
	}
}

// knock has pods connect to the server again and again, each a hundred times a second at most, and returns when they do.
func knock(t *testing.T, c *testkube.Cluster, from []string) {
	t.Helper()
	for _, name := range from {
		kubectl(t, c, "exec", name, "--", "/bin/busybox", "sh", "-c", fmt.Sprintf(
			`while :; do echo %s | busybox nc -w 1 %s %d; busybox usleep 10000; done </dev/null >/dev/null 2>&1 &`,
			name, addresses(t, c, server)[0], knockPort))
	}
	for _, name := range from {
		until(t, "a knock of "+name, func() error {
			if len(knocked(t, c, name)) == 0 {
				return errors.New("it has not connected yet")
			}
			return nil
		})
	}
}

// knocked returns when a pod connected to the server, by the uptime of the machine in seconds.
func knocked(t *testing.T, c *testkube.Cluster, name string) (list []float64) {
	t.Helper()
	for line := range strings.Lines(kubectl(t, c, "exec", server, "--", "/bin/busybox", "sh", "-c", "cat "+knocks)) {
		if who, at, _ := strings.Cut(strings.TrimSpace(line), " "); who == name {
			list = append(list, seconds(t, at))
		}
	}
	return list
}

// silence waits until a pod has not connected to the server for three seconds, and returns when it last did.
func silence(t *testing.T, c *testkube.Cluster, name string) (last float64) {
	t.Helper()
	until(t, "the silence of "+name, func() error {
		all := knocked(t, c, name)
		last = all[len(all)-1]
		if quiet := uptime(t) - last; quiet < 3 {
			return fmt.Errorf("it connected %.2f s ago", quiet)
		}
		return nil
	})
	return last
}

// again waits until a pod has connected to the server after some moment, and returns when it did so first.
func again(t *testing.T, c *testkube.Cluster, name string, after float64) (first float64) {
	t.Helper()
	until(t, "another knock of "+name, func() error {
		for _, at := range knocked(t, c, name) {
			if at >= after {
				first = at
				return nil
			}
		}
		return errors.New("it has not connected again")
	})
	return first
}

// uptime returns the uptime of the machine in seconds (proc(5)).
func uptime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	return seconds(t, first)
}

func seconds(t *testing.T, text string) float64 {
	t.Helper()
	at, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
