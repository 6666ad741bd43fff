package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/internal/kubectl"
)

const (
	// look is how often it is looked whether pods run: each time for all pods of a lab.
	look = 200 * time.Millisecond
	// perPod is how much longer that is for each of them.
	perPod = time.Millisecond
	// quiet is how long nothing is said about what is waited for, at first; then it is said ever more rarely.
	quiet = 2 * time.Second
	// refusedAfter is when the events of a Job are read that has no pods: it tells there that it may not make any.
	refusedAfter = time.Second
	// unattachedAfter is when the events of a pod are read that is to have a second interface and does not run.
	unattachedAfter = 10 * time.Second
	// removeLimit is how long pods may take to go, which have a second to end.
	removeLimit = 30 * time.Second
	// removeEach is how much longer that is for each of them and each Job. A controller manager makes 20 requests a
	// second, unless it was started with other settings (--kube-api-qps), and about two of them for each.
	removeEach = 100 * time.Millisecond
)

// path returns that of a collection of the run's namespace, with a query.
func (d *Deployment) path(group, kind string, query ...string) string {
	p := group + "/namespaces/" + url.PathEscape(d.namespace) + "/" + kind
	if len(query) > 0 {
		values := url.Values{}
		for i := 0; i+1 < len(query); i += 2 {
			values.Set(query[i], query[i+1])
		}
		p += "?" + values.Encode()
	}
	return p
}

// Groups of the API.
const (
	core  = "/api/v1"
	batch = "/apis/batch/v1"
	apps  = "/apis/apps/v1"
)

// create makes Jobs and waits until all of their pods run. They are by description, in the order of their indexes. All
// Jobs and their pods, and nothing else, have a label. If it fails, the Jobs are removed.
func (d *Deployment) create(ctx context.Context, label, value string, jobs ...jobSpec) (pods [][]pod, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, d.remove(label, value, jobs...))
		}
	}()
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for _, j := range jobs {
		for i, o := range j.objects() {
			group.Go(func() error {
				if err := d.client.Create(inGroup, d.path(batch, "jobs"), o, nil); err != nil {
					return fmt.Errorf("make job %q: %w", j.names()[i], err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if pods, err = d.await(ctx, label, value, jobs...); err != nil {
		return nil, err
	}
	for i, j := range jobs {
		d.own(j.name, pods[i])
	}
	return pods, nil
}

// podsIn is how many pods Jobs are to have.
func podsIn(jobs []jobSpec) (n int) {
	for _, j := range jobs {
		n += j.pods
	}
	return n
}

// jobsIn is how many Jobs they are.
func jobsIn(jobs []jobSpec) (n int) {
	for _, j := range jobs {
		n += len(j.names())
	}
	return n
}

// await waits until all pods of Jobs, or of a DaemonSet, run. It lists all of them at once: a request for each Job
// would have the API server look through the pods of all others each time.
func (d *Deployment) await(ctx context.Context, label, value string, jobs ...jobSpec) ([][]pod, error) {
	began, wait, all := time.Now(), d.waiting(), podsIn(jobs)
	looked := began
	for {
		listed, err := d.podsWith(ctx, label, value)
		if err != nil {
			return nil, err
		}
		pods, up, waits := sorted(listed, jobs), 0, ""
		at, refuses := jobs[0].node, d.takesNone // the node of a pod that does not run, and why it does not
		for k, j := range jobs {
			for i := range pods[k] {
				p := &pods[k][i]
				if p.runs() {
					up++
					continue
				}
				if why := p.never(); why != "" {
					return nil, fmt.Errorf("pod %q: %s%s", p.Metadata.Name, why, d.imageHint(why))
				}
				if j.attach != "" && len(p.Status.IPs) == 0 && time.Since(began) > unattachedAfter {
					if _, why := d.refused(ctx, "Pod", p.Metadata.Name); why != "" {
						return nil, fmt.Errorf("pod %q gets no interface by %q: %s", p.Metadata.Name, j.attach, why)
					}
				}
				if waits == "" {
					waits, at = fmt.Sprintf("pod %q: %s", p.Metadata.Name, p.waits()), j.node
					if p.Spec.Node != "" {
						at, refuses = p.Spec.Node, d.notReady
					}
				}
			}
		}
		if up == all {
			return pods, nil
		}
		lack := lacking(pods, jobs)
		kind, set := jobs[0].kind()
		if len(lack) > 0 && time.Since(began) > refusedAfter {
			if name, why := d.refused(ctx, kind, lack...); why != "" {
				return nil, fmt.Errorf("%s %q gets no pods: %s%s", set, name, why, quotaHint(why))
			}
		}
		if time.Since(looked) > readyLook {
			looked = time.Now()
			if why := refuses(ctx, at); why != "" {
				return nil, fmt.Errorf("%d of %d pods run: %s (hint: kubectl describe node %s)", up, all, why, at)
			}
		}
		if waits == "" && jobsIn(jobs) == 1 {
			waits = fmt.Sprintf("%s %q has %d of %d pods", set, jobs[0].names()[0], len(pods[0]), all)
		} else if waits == "" {
			waits = fmt.Sprintf("%d %ss have %d of %d pods", jobsIn(jobs), set, len(listed), all)
		}
		wait.say(func() string { return fmt.Sprintf("%d of %d pods run: %s", up, all, waits) })
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d pods run: %s: %w", up, all, waits, context.Cause(ctx))
		case <-time.After(look + time.Duration(all)*perPod):
		}
	}
}

// lacking returns the names of Jobs that have fewer pods than they are to have.
func lacking(pods [][]pod, jobs []jobSpec) (list []string) {
	for k, j := range jobs {
		names := j.names()
		if !j.apart {
			if len(pods[k]) < j.pods {
				list = append(list, names...)
			}
			continue
		}
		for i, name := range names {
			if !slices.ContainsFunc(pods[k], func(p pod) bool { return p.index() == i }) {
				list = append(list, name)
			}
		}
	}
	return list
}

// waiting is what is said of something that takes longer than quiet, ever more rarely.
type waiting struct {
	to    func(string) // nil: to nobody
	said  time.Time
	pause time.Duration
}

func (d *Deployment) waiting() *waiting { return &waiting{to: d.Say, said: time.Now(), pause: quiet} }

// say says what is waited for, if it is time.
func (w *waiting) say(what func() string) {
	if w.to != nil && time.Since(w.said) > w.pause {
		w.to(what())
		w.said, w.pause = time.Now(), 2*w.pause
	}
}

// sorted returns the pods of each description by their indexes.
func sorted(pods []pod, jobs []jobSpec) [][]pod {
	at := make(map[string]int, len(jobs))
	for i, j := range jobs {
		at[j.name] = i
	}
	by := make([][]pod, len(jobs))
	for _, p := range pods {
		if i, ours := at[p.Metadata.Labels[jobLabel]]; ours {
			by[i] = append(by[i], p)
		}
	}
	for _, of := range by {
		slices.SortStableFunc(of, func(a, b pod) int { return cmp.Compare(a.index(), b.index()) })
	}
	return by
}

// podsOf lists the pods of a description, by their indexes, or those of a DaemonSet.
func (d *Deployment) podsOf(ctx context.Context, job string) ([]pod, error) {
	list, err := d.podsWith(ctx, jobLabel, job)
	return sorted(list, []jobSpec{{name: job}})[0], err
}

// page is how many pods an answer has at most: an object of thousands would be kept whole by all who pass it on.
const page = 500

// podsWith lists the pods that have a label.
func (d *Deployment) podsWith(ctx context.Context, label, value string) (all []pod, err error) {
	if all, err = listPods(ctx, d.client, d.path(core, "pods"), url.Values{
		"labelSelector": {label + "=" + value},
	}); err != nil {
		return nil, fmt.Errorf("list the pods of %s %q: %w", strings.TrimPrefix(label, "nettoll/"), value, err)
	}
	return all, nil
}

// listPods lists pods, a page at a time.
func listPods(ctx context.Context, client *kubectl.Client, path string, query url.Values) (all []pod, err error) {
	query.Set("limit", strconv.Itoa(page))
	for {
		var list podList
		if err := client.Get(ctx, path+"?"+query.Encode(), &list); err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if list.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

// refused returns why the cluster does not make the pods of one of some Jobs or of a DaemonSet, or a node not the
// network of a pod, and which, as their events tell; "" if they tell nothing.
func (d *Deployment) refused(ctx context.Context, kind string, names ...string) (name, why string) {
	var list struct {
		Items []struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
			About   struct {
				Name string `json:"name"`
			} `json:"involvedObject"`
		} `json:"items"`
	}
	about := "involvedObject.kind=" + kind
	if len(names) == 1 {
		about += ",involvedObject.name=" + names[0]
	} else {
		about += ",reason=" + failedCreate
	}
	if err := d.client.Get(ctx, d.path(core, "events", "fieldSelector", about), &list); err != nil {
		return "", ""
	}
	of := make(map[string]bool, len(names))
	for _, n := range names {
		of[n] = true
	}
	for _, e := range list.Items {
		if (e.Reason == failedCreate || e.Reason == "FailedCreatePodSandBox") && of[e.About.Name] {
			return e.About.Name, e.Message
		}
	}
	return "", ""
}

// quotaHint says what helps if a quota of the namespace refuses pods; "" if it is something else.
func quotaHint(why string) string {
	if !strings.Contains(why, "exceeded quota") {
		return ""
	}
	return " (hint: measure fewer pairs or stacks at once, or have the quota raised)"
}

// failedCreate is the reason of an event of a Job or DaemonSet that may not make a pod.
const failedCreate = "FailedCreate"

// remove removes Jobs and their pods, and waits until those have gone, which have a label.
func (d *Deployment) remove(label, value string, jobs ...jobSpec) error {
	limit := removeLimit + time.Duration(podsIn(jobs)+jobsIn(jobs))*removeEach
	ctx, cancel := context.WithTimeout(context.Background(), limit) // also if the run was interrupted
	defer cancel()
	group := errgroup.Group{}
	group.SetLimit(together)
	for _, j := range jobs {
		defer d.disown(j.name)
		for _, name := range j.names() {
			group.Go(func() error {
				if err := d.client.Delete(ctx, d.path(batch, "jobs")+"/"+url.PathEscape(name),
					object{"propagationPolicy": "Background"}); err != nil && !absent(err) {
					return fmt.Errorf("remove job %q: %w", name, err)
				}
				return nil
			})
		}
	}
	return errors.Join(group.Wait(), d.vanished(ctx, label, value))
}

// vanished waits until the pods with a label have gone. It asks for one of them only, unless it says how many there
// are.
func (d *Deployment) vanished(ctx context.Context, label, value string) error {
	wait, left, stays := d.waiting(), 1, ""
	looked := time.Now()
	for {
		var list podList
		err := d.client.Get(ctx, d.path(core, "pods", "labelSelector", label+"="+value, "limit", "1"), &list)
		if err == nil && len(list.Items) == 0 {
			return nil
		}
		if err == nil {
			stays = list.Items[0].Metadata.Name
			wait.say(func() string {
				if all, err := d.podsWith(ctx, label, value); err == nil {
					left = len(all)
				}
				return fmt.Sprintf("pods to go: %d, such as %q", left, stays)
			})
			if time.Since(looked) > readyLook {
				looked = time.Now()
				if why := d.stuck(ctx, label, value, list.Items[0]); why != "" {
					return fmt.Errorf("remove the pods of %s %q: pod %q is still there: %s", strings.TrimPrefix(label, "nettoll/"),
						value, stays, why)
				}
			}
		}
		select {
		case <-ctx.Done():
			if stays != "" {
				err = fmt.Errorf("pod %q is still there", stays)
			}
			return fmt.Errorf("remove the pods of %s %q: %w", strings.TrimPrefix(label, "nettoll/"), value, err)
		case <-time.After(look):
		}
	}
}

// absent reports whether an object was not there.
func absent(err error) bool {
	s, ok := errors.AsType[*kubectl.StatusError](err)
	return ok && s.Code == http.StatusNotFound
}

// imageHint says how the nodes get the image, after a semicolon, if that is why a pod does not run.
func (d *Deployment) imageHint(why string) string {
	if !strings.Contains(why, "Image") {
		return ""
	}
	return fmt.Sprintf("; the nodes need image %s (nettoll image writes it; hosts.image names another one)", d.Image)
}
