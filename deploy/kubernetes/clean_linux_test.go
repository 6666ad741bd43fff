package kubernetes

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/kubectl"
)

// CleanOlder is [Clean] with another age from which on what does not run is taken for dead.
func CleanOlder(ctx context.Context, o kubectl.Options, age time.Duration) (Cleaned, error) {
	return cleanOlder(ctx, o, age)
}

// store is an API server that keeps objects by their paths.
type store struct {
	objects map[string]object
	closed  map[string]bool // collections that the user may not list
}

// put stores an object that is so old. Its labels are those of a run of nettoll; run "": it has none.
func (s *store) put(collection, name, run string, age time.Duration, more object) {
	meta := object{"name": name, "uid": "of-" + name, "creationTimestamp": time.Now().Add(-age).Format(time.RFC3339)}
	if _, after, ok := strings.Cut(collection, "/namespaces/"); ok {
		meta["namespace"], _, _ = strings.Cut(after, "/")
	}
	if run != "" {
		meta["labels"] = object{managedBy: manager, runLabel: run}
	}
	o := object{"metadata": meta}
	maps.Copy(o, more)
	s.objects[collection+"/"+name] = o
}

// listed are the objects of a collection of a namespace, or of the whole cluster, with labels.
func (s *store) listed(collection, selector string) []object {
	all := []object{}
	for _, path := range slices.Sorted(maps.Keys(s.objects)) {
		at := path[:strings.LastIndex(path, "/")]
		whole := at
		if group, after, ok := strings.Cut(at, "/namespaces/"); ok {
			_, kind, _ := strings.Cut(after, "/")
			whole = group + "/" + kind
		}
		if collection != at && collection != whole {
			continue
		}
		meta, _ := s.objects[path]["metadata"].(object)
		labels, _ := meta["labels"].(object)
		fits := true
		for want := range strings.SplitSeq(selector, ",") {
			key, value, _ := strings.Cut(want, "=")
			fits = fits && (want == "" || labels[key] == value)
		}
		if fits {
			all = append(all, s.objects[path])
		}
	}
	return all
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	var answer any = object{}
	switch {
	case path == "/version":
		answer = object{"gitVersion": "v1.35.4"}
	case r.Method == http.MethodDelete:
		var options struct{ Preconditions struct{ UID string } }
		_ = json.NewDecoder(r.Body).Decode(&options) // no UID is another one
		meta, _ := s.objects[path]["metadata"].(object)
		if options.Preconditions.UID != meta["uid"] {
			w.WriteHeader(http.StatusConflict)
			break
		}
		_, name, _ := strings.Cut(path, core)
		maps.DeleteFunc(s.objects, func(at string, _ object) bool { // with all in it, if it is a namespace
			return at == path || strings.HasPrefix(path, core) && strings.Contains(at, name+"/")
		})
	case s.closed[path]:
		w.WriteHeader(http.StatusForbidden)
	case strings.HasPrefix(path, policyGroupPath) && path != adminKinds()[0].path():
		w.WriteHeader(http.StatusNotFound)
	default:
		answer = object{"items": s.listed(path, r.URL.Query().Get("labelSelector"))}
	}
	_ = json.NewEncoder(w).Encode(answer) // the client sees what is missing
}

const policyGroupPath = "/apis/" + policyGroup

// What killed runs have left is removed if none of their pods runs and all is old. Runs that are alive, or may be, are
// left, and so is all that has not the labels of nettoll.
func TestClean(t *testing.T) {
	const old, fresh = openLimit + time.Minute, openLimit - time.Minute
	phase := func(p string) object { return object{"status": object{"phase": p}} }
	const namespaces = core + "/namespaces"
	pods := func(in string) string { return namespaces + "/" + in + "/pods" }
	jobs := func(in string) string { return batch + "/namespaces/" + in + "/jobs" }
	const (
		young3 = "no pod runs, but its newest job or pod is younger than 3m0s: its run may still start"
		runs   = `pod "p" has phase Running; it ends by itself if its run was killed`
		lost   = `pod "p" has phase Unknown; it ends by itself if its run was killed`
	)
	for _, tt := range []struct {
		name          string
		put           func(s *store)
		removed, left []Remnant
		kept          []string // besides what is left
		err           string
	}{
		{name: "nothing", put: func(*store) {}},
		{name: "empty", put: func(s *store) {
			s.put(namespaces, "a", "1", old, nil)
			s.put(namespaces, "b", "2", young/2, nil)
			s.put(namespaces, "mine", "", old, nil)
			s.put(namespaces, "going", "3", old, object{"metadata": object{
				"name": "going", "deletionTimestamp": time.Now().Format(time.RFC3339), "labels": object{managedBy: manager},
			}})
		}, removed: []Remnant{{Kind: namespaceKind, Name: "a"}}, left: []Remnant{
			{namespaceKind, "b", "it is younger than 1m0s: its run may just begin"},
			{namespaceKind, "going", "it is being removed"},
		}, kept: []string{namespaces + "/b", namespaces + "/going", namespaces + "/mine"}},
		{name: "own namespaces", put: func(s *store) {
			for in, of := range map[string]struct {
				phase string
				age   time.Duration
			}{
				"ended": {"Succeeded", old}, "failed": {"Failed", old}, "lost": {"Unknown", old}, "never": {"Pending", old},
				"runs": {"Running", old}, "starts": {"Pending", fresh},
			} {
				s.put(namespaces, in, in, old, nil)
				s.put(pods(in), "p", in, of.age, phase(of.phase))
			}
			s.put(namespaces, "jobs", "4", old, nil) // they get no pods, as with a quota
			s.put(jobs("jobs"), "j", "4", old, nil)
			s.put(namespaces, "jobs-fresh", "5", old, nil)
			s.put(jobs("jobs-fresh"), "j", "5", fresh, nil)
			s.put(namespaces, "theirs", "6", old, nil)
			s.put(pods("theirs"), "guest", "", old, phase("Pending"))
		}, removed: []Remnant{
			{Kind: namespaceKind, Name: "ended"},
			{Kind: namespaceKind, Name: "failed"},
			{Kind: namespaceKind, Name: "jobs"},
			{Kind: namespaceKind, Name: "never"},
		}, left: []Remnant{
			{namespaceKind, "jobs-fresh", young3},
			{namespaceKind, "lost", lost},
			{namespaceKind, "runs", runs},
			{namespaceKind, "starts", young3},
			{namespaceKind, "theirs", `pod "guest" in it is not of nettoll`},
		}, kept: []string{
			jobs("jobs-fresh") + "/j", namespaces + "/jobs-fresh", namespaces + "/lost", pods("lost") + "/p",
			namespaces + "/runs", pods("runs") + "/p", namespaces + "/starts", pods("starts") + "/p", namespaces + "/theirs",
			pods("theirs") + "/guest",
		}},
		{
			name: "a user's namespace", put: func(s *store) {
				s.put(namespaces, "mine", "", old, nil)
				s.put(jobs("mine"), "backup", "", old, nil)
				s.put(pods("mine"), "backup", "", old, phase("Pending"))
				s.put(jobs("mine"), "dead-lab", "dead", old, nil)
				s.put(jobs("mine"), "dead-scouts", "dead", old, nil)
				s.put(pods("mine"), "dead", "dead", old, phase("Pending"))
				s.put(jobs("mine"), "live-lab", "live", old, nil)
				s.put(pods("mine"), "p", "live", old, phase("Running"))
				s.put(pods("mine"), "waits", "live", old, phase("Pending"))
				s.put(jobs("mine"), "new-lab", "new", fresh, nil)
				s.put(jobs("mine"), "new-scouts", "new", old, nil)
				s.put(jobs("mine"), "odd", "", old, object{"metadata": object{
					"name": "odd", "namespace": "mine", "labels": object{managedBy: manager},
				}})
			}, removed: []Remnant{{Kind: jobKind, Name: "mine/dead-lab"}, {Kind: jobKind, Name: "mine/dead-scouts"}},
			left: []Remnant{
				{jobKind, "mine/odd", "it has no label nettoll/run"}, {runKind, "mine/live", runs}, {runKind, "mine/new", young3},
			}, kept: []string{
				jobs("mine") + "/backup", jobs("mine") + "/live-lab", jobs("mine") + "/new-lab", jobs("mine") + "/new-scouts",
				jobs("mine") + "/odd", namespaces + "/mine", pods("mine") + "/backup",
				pods("mine") + "/dead", // the cluster removes it with its Job
				pods("mine") + "/p", pods("mine") + "/waits",
			},
		},
		{name: "policies of the whole cluster", put: func(s *store) {
			of := func(name, run, in string) {
				s.put(adminKinds()[0].path(), name, run, old, nil)
				meta, _ := s.objects[adminKinds()[0].path()+"/"+name]["metadata"].(object)
				labels, _ := meta["labels"].(object)
				labels[namespaceLabel] = in
			}
			of("dead", "dead", "mine")
			s.put(jobs("mine"), "dead-lab", "dead", old, nil)
			s.put(pods("mine"), "dead", "dead", old, phase("Pending")) // still there when policies are looked at
			of("gone", "gone", "mine")
			of("live", "live", "mine")
			s.put(pods("mine"), "p", "live", old, phase("Running"))
		}, removed: []Remnant{
			{Kind: jobKind, Name: "mine/dead-lab"},
			{Kind: adminKinds()[0].kind, Name: "dead"},
			{Kind: adminKinds()[0].kind, Name: "gone"},
		}, left: []Remnant{{adminKinds()[0].kind, "live", runs}}, kept: []string{
			pods("mine") + "/dead", pods("mine") + "/p", adminKinds()[0].path() + "/live",
		}},
		{
			name: "few rights", put: func(s *store) { // the namespace of the context is default
				s.closed = map[string]bool{batch + "/jobs": true, jobs("ours"): true, adminKinds()[0].path(): true}
				s.put(namespaces, "ours", "1", old, nil)
				s.put(pods("ours"), "p", "1", old, phase("Pending"))
				s.put(jobs("default"), "dead-lab", "dead", old, nil)
				s.put(jobs("mine"), "other-lab", "other", old, nil)
			}, removed: []Remnant{{Kind: namespaceKind, Name: "ours"}, {Kind: jobKind, Name: "default/dead-lab"}},
			kept: []string{jobs("mine") + "/other-lab"},
		},
		{name: "no rights", put: func(s *store) {
			s.closed = map[string]bool{batch + "/jobs": true, jobs("default"): true}
		}, err: "list jobs: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &store{objects: map[string]object{}}
			tt.put(s)
			_, o := serve(t, s.ServeHTTP)
			got, err := Clean(t.Context(), o)
			if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(Cleaned{Cluster: "fake", Removed: tt.removed, Left: tt.left}, got); diff != "" {
				t.Errorf("cleaned (-want +got):\n%s", diff)
			}
			kept := slices.Sorted(maps.Keys(s.objects))
			want := slices.Clone(tt.kept)
			slices.Sort(want)
			if diff := cmp.Diff(want, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}
