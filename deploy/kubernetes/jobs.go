package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/kubectl"
)

const (
	// look is how often it is looked whether pods run: each time for all pods of a Job.
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

// create makes a Job and waits until all of its pods run. They are in the order of their indexes. If it fails, the Job
// is removed.
func (d *Deployment) create(ctx context.Context, j jobSpec) (pods []pod, err error) {
	if err := d.client.Create(ctx, d.path(batch, "jobs"), j.object(), nil); err != nil {
		return nil, fmt.Errorf("make job %q: %w", j.name, err)
	}
	if pods, err = d.await(ctx, j); err != nil {
		return nil, errors.Join(err, d.remove(j.name))
	}
	d.own(j.name, pods)
	return pods, nil
}

// await waits until all pods of a Job or DaemonSet run.
func (d *Deployment) await(ctx context.Context, j jobSpec) ([]pod, error) {
	began, said, pause := time.Now(), time.Now(), quiet
	kind, set := j.kind()
	for {
		pods, err := d.podsOf(ctx, j.name)
		if err != nil {
			return nil, err
		}
		up, waits := 0, ""
		for i := range pods {
			p := &pods[i]
			if p.runs() {
				up++
				continue
			}
			if why := p.never(); why != "" {
				return nil, fmt.Errorf("pod %q: %s%s", p.Metadata.Name, why, d.imageHint(why))
			}
			if j.attach != "" && len(p.Status.IPs) == 0 && time.Since(began) > unattachedAfter {
				if why := d.refused(ctx, "Pod", p.Metadata.Name); why != "" {
					return nil, fmt.Errorf("pod %q gets no interface by %q: %s", p.Metadata.Name, j.attach, why)
				}
			}
			if waits == "" {
				waits = fmt.Sprintf("pod %q, of %d that are to run: %s", p.Metadata.Name, j.pods, p.waits())
			}
		}
		if up == j.pods {
			return pods, nil
		}
		if len(pods) < j.pods && time.Since(began) > refusedAfter {
			if why := d.refused(ctx, kind, j.name); why != "" {
				return nil, fmt.Errorf("%s %q gets no pods: %s", set, j.name, why)
			}
		}
		if waits == "" {
			waits = fmt.Sprintf("%s %q has %d of %d pods", set, j.name, len(pods), j.pods)
		}
		if d.Say != nil && time.Since(said) > pause {
			d.Say(waits)
			said, pause = time.Now(), 2*pause
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d pods run: %s: %w", up, j.pods, waits, context.Cause(ctx))
		case <-time.After(look + time.Duration(j.pods)*perPod):
		}
	}
}

// podsOf lists the pods of a Job, by their indexes, or those of a DaemonSet.
func (d *Deployment) podsOf(ctx context.Context, job string) ([]pod, error) {
	var list podList
	if err := d.client.Get(ctx, d.path(core, "pods", "labelSelector", jobLabel+"="+job), &list); err != nil {
		return nil, fmt.Errorf("list the pods of job %q: %w", job, err)
	}
	slices.SortFunc(list.Items, func(a, b pod) int { return cmp.Compare(a.index(), b.index()) })
	return list.Items, nil
}

// refused returns why the cluster does not make the pods of a Job or DaemonSet, or a node not the network of a pod, as
// their events tell; "" if they tell nothing.
func (d *Deployment) refused(ctx context.Context, kind, name string) string {
	var list struct {
		Items []struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"items"`
	}
	about := "involvedObject.kind=" + kind + ",involvedObject.name=" + name
	if err := d.client.Get(ctx, d.path(core, "events", "fieldSelector", about), &list); err != nil {
		return ""
	}
	for _, e := range list.Items {
		if e.Reason == "FailedCreate" || e.Reason == "FailedCreatePodSandBox" {
			return e.Message
		}
	}
	return ""
}

// remove removes a Job and its pods, and waits until they have gone.
func (d *Deployment) remove(job string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also if the run was interrupted
	defer cancel()
	defer d.disown(job)
	if err := d.client.Delete(ctx, d.path(batch, "jobs")+"/"+url.PathEscape(job),
		object{"propagationPolicy": "Background"}); err != nil && !absent(err) {
		return fmt.Errorf("remove job %q: %w", job, err)
	}
	return d.vanished(ctx, job)
}

// vanished waits until the pods of a Job or DaemonSet have gone.
func (d *Deployment) vanished(ctx context.Context, job string) error {
	for {
		pods, err := d.podsOf(ctx, job)
		if err == nil && len(pods) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("%d of its pods are still there after %v", len(pods), removeLimit)
			}
			return fmt.Errorf("remove job %q: %w", job, err)
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
