package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/deploy"
)

// serveNodes is an API server whose nodes are ready or not, by their names. "" is the status of a node that nobody may
// read, and "cordoned" that of one that is ready and gets no new pods. Its pods are on nodes, and wait to run or to go.
func serveNodes(t *testing.T, ready map[string]string, pods ...string) *Deployment {
	t.Helper()
	_, o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var answer object
		at := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		switch name := at[len(at)-1]; {
		case name == "pods":
			var items []object
			for i, node := range pods {
				items = append(items, object{
					"metadata": object{"name": "p" + string(rune('0'+i)), "labels": object{jobLabel: "j", indexLabel: "0"}},
					"spec":     object{"nodeName": node}, "status": object{"phase": "Pending"},
				})
			}
			answer = object{"items": items}
		case !strings.Contains(r.URL.Path, "/nodes/"):
			answer = object{"gitVersion": "v1.35.4"}
		default:
			status, known := ready[name]
			if !known {
				w.WriteHeader(http.StatusNotFound)
			} else if status == "" {
				w.WriteHeader(http.StatusForbidden)
			}
			cordoned := status == "cordoned"
			if cordoned {
				status = "True"
			}
			answer = object{"spec": object{"unschedulable": cordoned}, "status": object{"conditions": []object{
				{"type": "MemoryPressure", "status": "False"},
				{"type": "Ready", "status": status, "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."},
			}}}
		}
		_ = json.NewEncoder(w).Encode(answer) // the client sees what is missing
	})
	return deploymentOn(t, o)
}

// isLost is what is said of a node whose kubelet does not answer.
const isLost = `node "n2" is not ready: Kubelet stopped posting node status. (NodeStatusUnknown)`

// isCordoned is what is said of a node that gets no new pods.
const isCordoned = `node "n6" gets no new pods: it is cordoned`

// A node that is ready, that nobody names, or that the user may not read is no reason to give anything up.
func TestNotReady(t *testing.T) {
	d := serveNodes(t, map[string]string{"n1": "True", "n2": "Unknown", "n3": "False", "n4": "", "n6": "cordoned"})
	for name, want := range map[string]string{
		"": "", "n1": "", "n2": isLost, "n3": strings.Replace(isLost, "n2", "n3", 1), "n4": "",
		"n5": `node "n5" is not there any more`, "n6": "",
	} {
		if got := d.notReady(t.Context(), name); got != want {
			t.Errorf("node %q: %q, want %q", name, got, want)
		}
		if name == "n6" {
			want = isCordoned
		}
		if got := d.takesNone(t.Context(), name); got != want {
			t.Errorf("node %q: it takes no pods because %q, want %q", name, got, want)
		}
	}
}

// Nobody waits for pods on a node that is not ready, neither until they run nor until they have gone.
func TestNotReadyWaits(t *testing.T) {
	job := jobSpec{name: "j", lab: "x", pods: 2, node: "n2"}
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		for _, on := range []string{"n2", ""} { // it is on its node, or has none yet
			d := serveNodes(t, map[string]string{"n2": "Unknown"}, on)
			want := "0 of 2 pods run: " + isLost + " (hint: kubectl describe node n2)"
			if _, err := d.await(t.Context(), labLabel, "x", job); err == nil || err.Error() != want {
				t.Errorf("pod on node %q: %v, want %s", on, err, want)
			}
		}
	})
	t.Run("cordoned", func(t *testing.T) {
		t.Parallel()
		job := jobSpec{name: "j", lab: "x", pods: 2, node: "n6"}
		d := serveNodes(t, map[string]string{"n6": "cordoned"}, "")
		want := "0 of 2 pods run: " + isCordoned + " (hint: kubectl describe node n6)"
		if _, err := d.await(t.Context(), labLabel, "x", job); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*readyLook)
		defer cancel()
		d = serveNodes(t, map[string]string{"n6": "cordoned"}, "n6")
		if _, err := d.await(ctx, labLabel, "x", job); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pod that already has the node: %v, want it to be awaited", err)
		}
	})
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		d := serveNodes(t, map[string]string{"n2": "Unknown"}, "n2", "n2")
		began := time.Now()
		want := `remove the pods of lab "x": pod "p0" is still there: ` + isLost
		if err := d.remove(labLabel, "x", job); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if took := time.Since(began); took > removeLimit/2 {
			t.Errorf("it has waited for %v", took)
		}
	})
	t.Run("some may go", func(t *testing.T) {
		t.Parallel()
		d := serveNodes(t, map[string]string{"n1": "True", "n2": "Unknown"}, "n2", "n1")
		if why := d.stuck(t.Context(), labLabel, "x", pod{}); why != "" {
			t.Errorf("nothing is known of the node: %s", why)
		}
		list, err := d.podsWith(t.Context(), labLabel, "x")
		if err != nil {
			t.Fatal(err)
		}
		if why := d.stuck(t.Context(), labLabel, "x", list[0]); why != "" {
			t.Errorf("a pod on n1 may go: %s", why)
		}
	})
}

// A pod that others have ended, or of which nobody can tell, is lost. That says nothing about the stack.
func TestVerifyLost(t *testing.T) {
	d := serveNodes(t, nil, "n1", "n1")
	pods, err := d.podsWith(t.Context(), labLabel, "x")
	if err != nil {
		t.Fatal(err)
	}
	gone := pods[0]
	gone.Metadata.UID = "another"
	l := &lab{deployment: d, name: "x", pods: [][]pod{{gone}, {pods[1]}}}
	err = l.Verify(t.Context())
	if _, lost := errors.AsType[*deploy.LostError](err); !lost || !strings.Contains(err.Error(), "is not there any more") ||
		!strings.Contains(err.Error(), "does not run any more: its phase is Pending") {
		t.Errorf("a pod that is not there, and one that does not run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = l.Verify(ctx)
	if _, lost := errors.AsType[*deploy.LostError](err); !lost || !errors.Is(err, context.Canceled) {
		t.Errorf("nobody answers: %v", err)
	}
}
