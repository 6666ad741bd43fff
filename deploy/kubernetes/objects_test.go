package kubernetes

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy"
)

// read reads what the API says of a pod.
func read(t *testing.T, text string) pod {
	t.Helper()
	var p pod
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

const up = `{"metadata": {"name": "a", "uid": "1", "labels": {"batch.kubernetes.io/job-completion-index": "3"}},
	"spec": {"nodeName": "n1"}, "status": {"phase": "Running", "podIPs": [{"ip": "10.244.1.7"}, {"ip": "fd00::7"}],
	"hostIP": "192.0.2.7", "hostIPs": [{"ip": "192.0.2.7"}, {"ip": "2001:db8::7"}],
	"containerStatuses": [{"state": {"running": {"startedAt": "2026-11-27T10:00:00Z"}}}]}}`

// What the cluster says of a pod becomes a sentence: whether it runs, may still, or never will.
func TestPod(t *testing.T) {
	p := read(t, up)
	if v4, v6 := p.addresses(); !p.runs() || p.never() != "" || p.index() != 3 || v4.String() != "10.244.1.7" ||
		v6.String() != "fd00::7" {
		t.Errorf("a pod that runs: %v, %q, index %d, %v, %v", p.runs(), p.never(), p.index(), v4, v6)
	}
	if v4, v6 := p.node(); v4.String() != "192.0.2.7" || v6.String() != "2001:db8::7" {
		t.Errorf("its node has the addresses %v and %v", v4, v6)
	}
	old := read(t, strings.Replace(up, `"hostIPs"`, `"others"`, 1)) // before Kubernetes 1.29
	if v4, v6 := old.node(); v4.String() != "192.0.2.7" || v6.IsValid() {
		t.Errorf("the node of an old cluster has the addresses %v and %v", v4, v6)
	}
	if differs(p, &p) != nil {
		t.Errorf("it differs from itself: %v", differs(p, &p))
	}
	for _, tt := range []struct{ name, text, never, waits, drift string }{
		{
			"no node",
			`{"metadata": {"uid": "1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
				"reason": "Unschedulable", "message": "0/2 nodes are\n available"}]}}`,
			"", "it has no node: 0/2 nodes are available (Unschedulable)", "it has no node",
		},
		{
			"no image",
			`{"metadata": {"uid": "1"}, "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason":
				"ImagePullBackOff", "message": "Back-off pulling image \"nettoll:latest\""}}}]}}`,
			`its container does not start: Back-off pulling image "nettoll:latest" (ImagePullBackOff)`,
			"its container waits", "its container does not start",
		},
		{
			"it starts", `{"metadata": {"uid": "1"}, "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting":
				{"reason": "ContainerCreating"}}}]}}`,
			"", "its container waits: ContainerCreating", "ContainerCreating",
		},
		{
			"evicted", `{"metadata": {"uid": "1"}, "status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory",
				"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "Error"}}}]}}`,
			"it has ended: low on memory (Evicted); its container ended with status 137: Error", "its phase is Failed", "Evicted",
		},
		{
			"deleted", strings.Replace(up, `"uid": "1",`, `"uid": "1", "deletionTimestamp": "2026-11-27T10:00:01Z",`, 1),
			"it was deleted", "its phase is Running", "it was deleted",
		},
		{
			"evicted by the API", `{"metadata": {"uid": "1", "deletionTimestamp": "2026-11-27T10:00:01Z"}, "status": {"phase":
				"Running", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
				"message": "Eviction API: evicting"}]}}`,
			"it was deleted: Eviction API: evicting (EvictionByEvictionAPI)", "its phase is Running", "it was deleted: Eviction API",
		},
		{
			"another address", strings.Replace(up, "10.244.1.7", "10.244.1.8", 1), "", "its phase is Running",
			"and has [{10.244.1.8}",
		},
		{"another pod", strings.Replace(up, `"uid": "1"`, `"uid": "2"`, 1), "", "its phase is Running", "is not there any more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := read(t, tt.text)
			if now.never() != tt.never || !strings.HasPrefix(now.waits(), tt.waits) {
				t.Errorf("never %q, waits %q; want %q, %q…", now.never(), now.waits(), tt.never, tt.waits)
			}
			err := differs(p, byUID([]pod{now})[p.Metadata.UID])
			if err == nil || !strings.Contains(err.Error(), tt.drift) {
				t.Errorf("drift %v, want one with %q", err, tt.drift)
			}
			if _, lost := errors.AsType[*deploy.LostError](err); lost != (tt.name != "another address") {
				t.Errorf("drift %v: lost %v; want that only another address is evidence", err, lost)
			}
		})
	}
}

// The index of a pod that is apart is its own, and not that in its Job, which has no other pod.
func TestPodApart(t *testing.T) {
	const index = `"batch.kubernetes.io/job-completion-index": `
	p := read(t, strings.Replace(up, index+`"3"`, index+`"0", "nettoll/pod": "5"`, 1))
	if p.index() != 5 {
		t.Errorf("index %d, want 5", p.index())
	}
}

// Network plugins are known by the images of their pods, as their manifests name them.
func TestPlugins(t *testing.T) {
	for image, want := range map[string]string{
		"quay.io/cilium/cilium:v1.19.1@sha256:ab":                             "cilium v1.19.1",
		"docker.io/calico/node:v3.30.0":                                       "calico/node v3.30.0",
		"ghcr.io/flannel-io/flannel:v0.27.0":                                  "flannel v0.27.0",
		"docker.io/kindest/kindnetd:v20250512":                                "kindnetd v20250512",
		"602401143452.dkr.ecr.us-west-2.amazonaws.com/amazon-k8s-cni:v1.20.0": "amazon-k8s-cni v1.20.0",
		"registry.k8s.io/kube-proxy:v1.35.4":                                  "",
		"docker.io/library/node:22":                                           "",
		"prom/node-exporter:v1.9.0":                                           "",
	} {
		got := ""
		if m := known.FindStringSubmatch(image); m != nil {
			got = strings.TrimSpace(m[1] + " " + m[2])
		}
		if got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// Which rights a program in a pod takes depends on the version of the API server.
func TestCreatesExec(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.35.4": true, "v1.36.0": true, "v1.34.9": false, "v1.9.11-gke.1": false, "v1.35.0-eks-1a2b": true, "": true, "v2.0": true,
	} {
		if got := createsExec(version); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}
