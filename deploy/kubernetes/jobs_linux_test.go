package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/network"
)

// fakeKubectl is the main function of a kubectl whose API server is that of a test.
func fakeKubectl(args []string) error {
	const flag = "--unix-socket="
	for _, a := range args {
		if !strings.HasPrefix(a, flag) {
			continue
		}
		l, err := net.Listen("unix", strings.TrimPrefix(a, flag))
		if err != nil {
			return err
		}
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "fake"})
		proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", os.Getenv(fakeServer))
		}}
		return http.Serve(l, proxy) //nolint:gosec // only a test reaches it
	}
	_, err := os.Stdout.WriteString(`{"current-context": "fake", "clusters": [{"cluster": {"server": "http://fake"}}], ` +
		`"contexts": [{"context": {}}]}`)
	return err
}

// fakeServer is the variable with the path of the socket of its API server.
const fakeServer = "NETTOLL_TEST_API"

// api is an API server that knows Jobs and their pods. A pod runs as soon as it was listed once.
type api struct {
	*httptest.Server
	mu      sync.Mutex
	jobs    map[string]object
	lacks   map[string]string // why a Job gets no pods, by its name
	listed  map[string]int
	limited map[string]any // the limit with which a Job was made, by its name
	patches bool           // the user may patch Jobs
	refuses bool           // it refuses that all the same
	removed int            // answers in which the pods of removed Jobs are still there
	late    func()         // is called before each of them
	asked   map[string]int // by method and kind
}

// newAPI returns it, and a deployment on its cluster.
func newAPI(t *testing.T) (*api, *Deployment) {
	t.Helper()
	a := &api{
		jobs: map[string]object{}, lacks: map[string]string{}, listed: map[string]int{}, asked: map[string]int{},
		limited: map[string]any{},
	}
	a.late = func() {}
	var o kubectl.Options
	a.Server, o = serve(t, func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.Method == http.MethodPatch && a.refuses {
			w.WriteHeader(http.StatusForbidden)
		}
		_ = json.NewEncoder(w).Encode(a.answer(r)) // the client sees what is missing
	})
	return a, deploymentOn(t, o)
}

// serve starts a server, and returns how a client reaches it.
func serve(t *testing.T, answer http.HandlerFunc) (*httptest.Server, kubectl.Options) {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	path := filepath.Join(t.TempDir(), "api")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Listener.Close() // no address is needed
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s, kubectl.Options{Program: "/proc/self/exe", Env: append(os.Environ(), fakeServer+"="+path)}
}

// deploymentOn is a deployment on a cluster.
func deploymentOn(t *testing.T, o kubectl.Options) *Deployment {
	t.Helper()
	d := &Deployment{run: "7", namespace: "lab", Image: "nettoll:latest"}
	var err error
	if d.client, err = kubectl.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.client.Close() })
	return d
}

func (a *api) answer(r *http.Request) any {
	at := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	kind := slices.IndexFunc(at, func(s string) bool { return s == "jobs" || s == "pods" || s == "events" })
	if at[len(at)-1] == "selfsubjectaccessreviews" {
		return object{"status": object{"allowed": a.patches}}
	}
	if kind < 0 {
		return object{"gitVersion": "v1.35.4"}
	}
	a.asked[r.Method+" "+at[kind]]++
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		var job object
		_ = json.NewDecoder(r.Body).Decode(&job) // the test then finds no Job
		name, _ := job["metadata"].(object)["name"].(string)
		a.jobs[name] = job
		a.limited[name] = job["spec"].(object)[limitField]
		return job
	case r.Method == http.MethodPatch:
		var change struct{ Spec object }
		_ = json.NewDecoder(r.Body).Decode(&change) // the test then finds no change
		for field, value := range change.Spec {
			if value == nil && !a.refuses {
				delete(a.jobs[at[kind+1]]["spec"].(object), field)
			}
		}
		return object{"message": "no"}
	case r.Method == http.MethodDelete:
		delete(a.jobs, at[kind+1])
		return object{}
	case at[kind] == "events":
		return object{"items": a.events(query.Get("fieldSelector"))}
	}
	all := a.pods(query.Get("labelSelector"))
	from, _ := strconv.Atoi(query.Get("continue")) // 0 if there is none
	limit, _ := strconv.Atoi(query.Get("limit"))
	to := min(from+limit, len(all))
	answer := object{"items": all[from:to]}
	if to < len(all) {
		answer["metadata"] = object{"continue": strconv.Itoa(to)}
	}
	return answer
}

// pods are those of all Jobs with a label, by the names of the Jobs, those of each in the reverse order of their
// indexes.
func (a *api) pods(selector string) (all []object) {
	key, value, _ := strings.Cut(selector, "=")
	for _, name := range slices.Sorted(maps.Keys(a.jobs)) {
		labels, _ := a.jobs[name]["metadata"].(object)["labels"].(object)
		if labels[key] != value || a.lacks[name] != "" {
			continue
		}
		a.listed[name]++
		spec, _ := a.jobs[name]["spec"].(object)
		n, _ := spec["completions"].(float64)
		template, _ := spec["template"].(object)["metadata"].(object)["labels"].(object)
		for i := int(n) - 1; i >= 0; i-- {
			status := object{"phase": "Pending"}
			if a.listed[name] > 1 {
				status = object{"phase": "Running", "podIPs": []object{{"ip": "10.0.0.1"}}, "containerStatuses": []object{
					{"state": object{"running": object{}}},
				}}
			}
			labels := maps.Clone(template)
			labels[indexLabel] = strconv.Itoa(i)
			all = append(all, object{
				"metadata": object{
					"name": fmt.Sprintf("%s-%d", name, i), "uid": fmt.Sprintf("%s-%d", name, i), "labels": labels,
				},
				"spec": object{"nodeName": "of-" + name}, "status": status,
			})
		}
	}
	if len(a.jobs) == 0 && a.removed > 0 {
		a.removed--
		a.late()
		return []object{{"metadata": object{"name": "late"}}}
	}
	return all
}

func (a *api) events(selector string) (all []object) {
	for _, name := range slices.Sorted(maps.Keys(a.lacks)) {
		if !strings.Contains(selector, "involvedObject.name=") || strings.Contains(selector, "involvedObject.name="+name) {
			all = append(all, object{
				"reason": failedCreate, "message": a.lacks[name], "involvedObject": object{"name": name},
			})
		}
	}
	return all
}

// jobsOf are Jobs of a lab with so many pods each.
func jobsOf(lab string, jobs, pods int) []jobSpec {
	list := make([]jobSpec, jobs)
	for i := range list {
		list[i] = jobSpec{name: fmt.Sprintf("%s-%02d", lab, i), run: "7", lab: lab, image: "i", pods: pods, node: "n1"}
	}
	return list
}

// The pods of a lab are asked for together, however many Jobs it has, and in parts if there are many. They are sorted.
func TestJobs(t *testing.T) {
	a, d := newAPI(t)
	jobs := jobsOf("x", 40, 30)
	pods, err := d.create(t.Context(), labLabel, "x", jobs...)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) != len(jobs) {
		t.Fatalf("pods of %d Jobs, want %d", len(pods), len(jobs))
	}
	for k, of := range pods {
		for i, p := range of {
			if p.Metadata.Name != fmt.Sprintf("%s-%d", jobs[k].name, i) {
				t.Errorf("pod %d of job %d is %q", i, k, p.Metadata.Name)
			}
		}
		if len(of) != 30 {
			t.Errorf("job %d has %d pods", k, len(of))
		}
	}
	if diff := cmp.Diff(map[string]int{"POST jobs": 40, "GET pods": 2 * 3}, a.asked); diff != "" { // twice 1200 pods
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := d.owned()["of-x-03"]; len(got) != 30 || got[0] != "x-03-0" {
		t.Errorf("the pods on a node are %v, want those of its Job alone", got)
	}
	clear(a.asked)
	a.removed = 2
	if err := d.remove(labLabel, "x", jobs...); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]int{"DELETE jobs": 40, "GET pods": 3}, a.asked); diff != "" {
		t.Errorf("requests to remove them (-want +got):\n%s", diff)
	}
	if left := d.owned(); len(left) != 0 {
		t.Errorf("pods of removed Jobs are still known: %v", left)
	}
}

// Pods that are apart have a Job each. A policy can choose each of them alone, by no label of Kubernetes.
func TestJobsApart(t *testing.T) {
	a, d := newAPI(t)
	jobs := jobsOf("x", 3, 12)
	for i := range jobs {
		jobs[i].apart = true
	}
	pods, err := d.create(t.Context(), labLabel, "x", jobs...)
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[string]int{}
	for k, of := range pods {
		if len(of) != 12 {
			t.Fatalf("%d pods are like %q, want 12", len(of), jobs[k].name)
		}
		for i := range of {
			labels, _ := jobs[k].selector(i)["matchLabels"].(object)
			for key := range labels {
				if strings.Contains(key, "kubernetes.io") {
					t.Errorf("pods are chosen by label %q, which Cilium ignores", key)
				}
			}
			for l, others := range pods {
				for m, p := range others {
					if matches(p, labels) {
						chosen[p.Metadata.Name]++
						if l != k || m != i {
							t.Errorf("labels %v of pod %d of %q choose pod %d of %q", labels, i, jobs[k].name, m, jobs[l].name)
						}
					}
				}
			}
		}
	}
	if len(chosen) != 36 || a.asked["POST jobs"] != 36 {
		t.Errorf("%d pods are chosen, of %d Jobs; want 36 and 36", len(chosen), a.asked["POST jobs"])
	}
	if err := d.remove(labLabel, "x", jobs...); err != nil {
		t.Error(err)
	}
	if left := d.owned(); len(a.jobs) > 0 || len(left) > 0 {
		t.Errorf("Jobs are left: %v, or pods of removed ones still known: %v", a.jobs, left)
	}

	a.lacks["x-02-7"] = "exceeded quota"
	want := `job "x-02-7" gets no pods: exceeded quota (hint: measure fewer pairs or stacks at once, or have the quota raised)`
	if _, err := d.create(t.Context(), labLabel, "x", jobs...); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// matches says whether a pod has labels.
func matches(p pod, labels object) bool {
	for key, value := range labels {
		if p.Metadata.Labels[key] != value {
			return false
		}
	}
	return true
}

// If one of many Jobs gets no pods, the error says which and why, and all are removed.
func TestJobsRefused(t *testing.T) {
	for _, n := range []int{1, 20} {
		a, d := newAPI(t)
		jobs := jobsOf("x", n, 2)
		last := jobs[n-1].name
		a.lacks[last], a.lacks["other"] = "exceeded quota", "no reason of ours"
		_, err := d.create(t.Context(), labLabel, "x", jobs...)
		want := fmt.Sprintf("job %q gets no pods: exceeded quota (hint: measure fewer pairs or stacks at once, or have the "+
			"quota raised)", last)
		if err == nil || err.Error() != want {
			t.Errorf("%d Jobs: %v, want %s", n, err, want)
		}
		if len(a.jobs) > 0 {
			t.Errorf("%d Jobs: some are left: %v", n, a.jobs)
		}
		if a.asked["GET events"] != 1 {
			t.Errorf("%d Jobs: events were asked for %d times, want once", n, a.asked["GET events"])
		}
	}
}

// The Jobs of a lab, those of single pods too, belong to the scouts' Job, which belongs to nobody.
func TestJobsOwned(t *testing.T) {
	owner := object{"apiVersion": "batch/v1", "kind": "Job", "name": "nettoll-7-1-scouts", "uid": "u"}
	for id, want := range map[string]int{"cni": 2, "host": 2, "cni+networkpolicy": 4} {
		spec := deploy.Spec{ID: id, Stack: parsed(t, id), Net: network.NewLab(2, 0)}
		for i := range spec.Net.Hosts {
			spec.Net.Hosts[i].Containers = []network.Container{{Name: "src0"}, {Name: "snk0"}}
		}
		d := &Deployment{run: "7", owner: owner, nodes: []node{{name: "n1"}, {name: "n2"}}}
		_, jobs := (&generation{Deployment: d}).newLab(spec).inhabited()
		n := 0
		for _, j := range jobs {
			for _, o := range j.objects() {
				n++
				meta, _ := o["metadata"].(object)
				if diff := cmp.Diff(any([]object{owner}), meta["ownerReferences"]); diff != "" {
					t.Errorf("%s: owners of job %v (-want +got):\n%s", id, meta["name"], diff)
				}
			}
		}
		if n != want {
			t.Errorf("%s: %d Jobs, want %d", id, n, want)
		}
	}
	meta, _ := jobSpec{name: "nettoll-7-1-scouts", pods: 2}.objects()[0]["metadata"].(object)
	if owners, ok := meta["ownerReferences"]; ok {
		t.Errorf("the scouts' Job belongs to %v", owners)
	}
}

// The Jobs of scouts have a limit until their pods run, but only if it can be taken away again.
func TestScoutsLimited(t *testing.T) {
	const refusal = "take the limit of job "
	for _, tt := range []struct{ apart, patches, refuses bool }{
		{patches: true}, {apart: true, patches: true}, {}, {patches: true, refuses: true},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			a, d := newAPI(t)
			a.patches, a.refuses, d.policed, d.Hosts, d.Namespace = tt.patches, tt.refuses, tt.apart, 2, "lab"
			err := d.station(t.Context())
			if refused := err != nil; refused != tt.refuses || refused && !strings.HasPrefix(err.Error(), refusal) {
				t.Fatalf("got %v, want a refusal: %v", err, tt.refuses)
			}
			want := 1
			if tt.apart {
				want = 2
			}
			if len(a.jobs) != want {
				t.Errorf("%d Jobs, want %d", len(a.jobs), want)
			}
			for name, job := range a.jobs {
				if limit := a.limited[name]; (limit == 240.0) != tt.patches || limit != nil && !tt.patches {
					t.Errorf("job %s was made with limit %v s", name, limit)
				}
				if limit := job["spec"].(object)[limitField]; limit != nil && !tt.refuses {
					t.Errorf("job %s has limit %v s when its pods run", name, limit)
				}
			}
		})
	}
}

// No lab is made if the scouts' Job has gone, or another one has its name: the cluster would remove what is made.
func TestScoutsGone(t *testing.T) {
	for uid, want := range map[string]string{
		"u": "",
		"v": `job "s" is not there any more: a pod of it has ended, or somebody has removed it`,
		"":  `job "s" is not there any more: a pod of it has ended, or somebody has removed it`,
	} {
		_, o := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/jobs/s") && uid == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			_ = json.NewEncoder(w).Encode(object{ // the client sees what is missing
				"gitVersion": "v1.35.4", "metadata": object{"uid": uid},
			})
		})
		d := deploymentOn(t, o)
		d.scouts, d.owner = jobSpec{name: "s", pods: 1}, object{"uid": "u"}
		if err := d.keepScouts(t.Context()); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("uid %q: %v, want %q", uid, err, want)
		}
	}
}

// Pods that do not go in time are named.
func TestJobsStay(t *testing.T) {
	a, d := newAPI(t)
	a.removed = 1000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.late = func() {
		if a.removed < 998 {
			cancel()
		}
	}
	want := `remove the pods of lab "x": pod "late" is still there`
	if err := d.vanished(ctx, labLabel, "x"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// What takes long is said ever more rarely, and one failure ends what is done for each.
func TestEach(t *testing.T) {
	var said []string
	d := &Deployment{Say: func(text string) { said = append(said, text) }}
	w := d.waiting()
	for range 3 {
		w.say(func() string { return "early" })
	}
	w.said = w.said.Add(-quiet)
	w.say(func() string { return "late" })
	w.said = w.said.Add(-quiet)
	w.say(func() string { return "too soon" })
	if diff := cmp.Diff([]string{"late"}, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	var mu sync.Mutex
	at, most, done := 0, 0, 0
	failed := errors.New("failed")
	err := d.each(t.Context(), 100, "are done", func(ctx context.Context, i int) error {
		mu.Lock()
		at++
		most = max(most, at)
		mu.Unlock()
		defer func() {
			mu.Lock()
			at, done = at-1, done+1
			mu.Unlock()
		}()
		if i == 50 {
			return failed
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
		return ctx.Err()
	})
	if !errors.Is(err, failed) || most > together || done < 50 {
		t.Errorf("%v; %d at the same time, %d done", err, most, done)
	}
}
