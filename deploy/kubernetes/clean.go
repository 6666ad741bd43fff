package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/nettoll/nettoll/internal/kubectl"
)

// young is the age below which a namespace without pods may be that of a run that has just begun.
const young = time.Minute

// A Remnant is what a run may have left in a cluster.
type Remnant struct {
	Kind string // "namespace", "job", "run" (one in a user's namespace), or the kind of a policy of the whole cluster
	Name string // of a job or run: NAMESPACE/NAME
	Why  string // it is left alone; "" if it was removed
}

// Cleaned is what [Clean] has done.
type Cleaned struct {
	Cluster       string // the context
	Removed, Left []Remnant
}

// Clean removes what runs whose controller was killed have left in a cluster: the namespaces that nettoll has made, its
// Jobs in namespaces of users, and its policies of the whole cluster. It leaves runs alone of which a pod runs, or may
// still start because the run is young. It touches nothing without nettoll's labels, nor a namespace with other pods.
func Clean(ctx context.Context, o kubectl.Options) (done Cleaned, err error) {
	// A run waits no longer for its first pods, and later its scouts run.
	return cleanOlder(ctx, o, openLimit)
}

// cleanOlder is Clean, which takes a run for dead that has no running pod, and nothing younger than age.
func cleanOlder(ctx context.Context, o kubectl.Options, age time.Duration) (done Cleaned, err error) {
	client, err := kubectl.Open(ctx, o)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	c := cleaning{client: client, age: age, ours: map[string]bool{}, dead: map[[2]string]bool{}}
	c.done.Cluster = client.Context()
	err = errors.Join(c.namespaces(ctx), c.jobs(ctx), c.admin(ctx))
	return c.done, err
}

// cleaning is a call of [Clean].
type cleaning struct {
	client *kubectl.Client
	age    time.Duration      // from which on what does not run is taken for dead
	ours   map[string]bool    // the namespaces that nettoll has made
	dead   map[[2]string]bool // namespaces and runs whose Jobs were removed: their pods may still be there
	done   Cleaned
}

// Kinds of a [Remnant].
const (
	namespaceKind = "namespace"
	jobKind       = "job"
	runKind       = "run"
)

func (c *cleaning) leave(kind, name, why string) {
	c.done.Left = append(c.done.Left, Remnant{kind, name, why})
}

// remove removes an object. One that is not there any more was removed by somebody else.
func (c *cleaning) remove(ctx context.Context, kind, name, path, uid string) error {
	err := c.client.Delete(ctx, path, object{"propagationPolicy": "Background", "preconditions": object{"uid": uid}})
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s %q: %w", kind, name, err)
	}
	c.done.Removed = append(c.done.Removed, Remnant{Kind: kind, Name: name})
	return nil
}

// madeByUs selects what nettoll has made.
func madeByUs() string { return url.Values{"labelSelector": {managedBy + "=" + manager}}.Encode() }

// A dated object is what the API tells of one.
type dated struct {
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		UID       string            `json:"uid"`
		Labels    map[string]string `json:"labels"`
		Created   time.Time         `json:"creationTimestamp"`
		Deletion  string            `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// list lists objects with the labels of nettoll.
func (c *cleaning) list(ctx context.Context, path string) ([]dated, error) {
	var l struct {
		Items []dated `json:"items"`
	}
	err := c.client.Get(ctx, path+"?"+madeByUs(), &l)
	return l.Items, err
}

// in returns the path of a collection in a namespace.
func in(group, namespace, kind string) string {
	return group + "/namespaces/" + url.PathEscape(namespace) + "/" + kind
}

// pods lists pods of a namespace; run "": all, also those of others.
func (c *cleaning) pods(ctx context.Context, namespace, run string) ([]pod, error) {
	query := url.Values{}
	if run != "" {
		query.Set("labelSelector", managedBy+"="+manager+","+runLabel+"="+run)
	}
	all, err := listPods(ctx, c.client, in(core, namespace, "pods"), query)
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %q: %w", namespace, err)
	}
	return all, nil
}

// alive says why a run may be alive that has some pods and Jobs; "" if it is dead.
func (c *cleaning) alive(pods []pod, jobs []dated) string {
	var newest time.Time
	for i := range pods {
		p := &pods[i].Metadata
		switch phase := pods[i].Status.Phase; phase {
		case "Pending", "Succeeded", "Failed":
		default: // Running or, if its node does not answer, Unknown
			return fmt.Sprintf("pod %q has phase %s; it ends by itself if its run was killed", p.Name, phase)
		}
		if newest.Before(p.Created) {
			newest = p.Created
		}
	}
	for i := range jobs {
		if m := &jobs[i].Metadata; newest.Before(m.Created) {
			newest = m.Created
		}
	}
	if time.Since(newest) < c.age {
		return fmt.Sprintf("no pod runs, but its newest job or pod is younger than %v: its run may still start", c.age)
	}
	return ""
}

// namespaces removes namespaces that were made for runs.
func (c *cleaning) namespaces(ctx context.Context) error {
	list, err := c.list(ctx, core+"/namespaces")
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	var errs []error
	for i := range list {
		n := &list[i].Metadata
		c.ours[n.Name] = true
		why, err := c.keepsNamespace(ctx, &list[i])
		switch {
		case err != nil:
			errs = append(errs, err)
		case why != "":
			c.leave(namespaceKind, n.Name, why)
		default:
			c.dead[[2]string{n.Name, n.Labels[runLabel]}] = true
			errs = append(errs, c.remove(ctx, namespaceKind, n.Name, core+"/namespaces/"+url.PathEscape(n.Name), n.UID))
		}
	}
	return errors.Join(errs...)
}

// keepsNamespace says why a namespace that was made for a run is left alone; "" if it can go.
func (c *cleaning) keepsNamespace(ctx context.Context, n *dated) (why string, err error) {
	name := n.Metadata.Name
	if n.Metadata.Deletion != "" {
		return "it is being removed", nil
	}
	pods, err := c.pods(ctx, name, "")
	if err != nil {
		return "", err
	}
	for i := range pods {
		if p := &pods[i].Metadata; p.Labels[managedBy] != manager {
			return fmt.Sprintf("pod %q in it is not of nettoll", p.Name), nil
		}
	}
	jobs, err := c.list(ctx, in(batch, name, "jobs"))
	if err != nil && !forbidden(err) { // without the right, pods say it
		return "", fmt.Errorf("list the jobs of namespace %q: %w", name, err)
	}
	if len(pods)+len(jobs) > 0 {
		return c.alive(pods, jobs), nil
	}
	if time.Since(n.Metadata.Created) < young {
		return fmt.Sprintf("it is younger than %v: its run may just begin", young), nil
	}
	return "", nil
}

// jobs removes the Jobs of runs in namespaces of users. A user who may not list those of the whole cluster cleans the
// namespace of the context.
func (c *cleaning) jobs(ctx context.Context) error {
	list, err := c.list(ctx, batch+"/jobs")
	if forbidden(err) {
		list, err = c.list(ctx, in(batch, c.client.Namespace(), "jobs"))
	}
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	runs, order := map[[2]string][]dated{}, [][2]string{}
	for _, j := range list {
		m := &j.Metadata
		of := [2]string{m.Namespace, m.Labels[runLabel]}
		if c.ours[m.Namespace] {
			continue
		}
		if of[1] == "" {
			c.leave(jobKind, m.Namespace+"/"+m.Name, "it has no label "+runLabel)
			continue
		}
		if runs[of] == nil {
			order = append(order, of)
		}
		runs[of] = append(runs[of], j)
	}
	var errs []error
	for _, of := range order {
		pods, err := c.pods(ctx, of[0], of[1])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if why := c.alive(pods, runs[of]); why != "" {
			c.leave(runKind, of[0]+"/"+of[1], why)
			continue
		}
		c.dead[of] = true
		for _, j := range runs[of] {
			m := &j.Metadata
			errs = append(errs, c.remove(ctx, jobKind, m.Namespace+"/"+m.Name,
				in(batch, m.Namespace, "jobs")+"/"+url.PathEscape(m.Name), m.UID))
		}
	}
	return errors.Join(errs...)
}

// admin removes policies of the whole cluster whose runs are dead. A user who may not list them has made none.
func (c *cleaning) admin(ctx context.Context) error {
	var errs []error
	for _, k := range adminKinds() {
		list, err := c.list(ctx, k.path())
		if absent(err) || forbidden(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("list the policies of the whole cluster: %w", err)
		}
		for _, p := range list {
			name, in, run := p.Metadata.Name, p.Metadata.Labels[namespaceLabel], p.Metadata.Labels[runLabel]
			if in == "" || run == "" {
				c.leave(k.kind, name, "it has no label "+namespaceLabel+" or "+runLabel)
				continue
			}
			if !c.dead[[2]string{in, run}] {
				pods, err := c.pods(ctx, in, run)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if why := c.alive(pods, nil); len(pods) > 0 && why != "" {
					c.leave(k.kind, name, why)
					continue
				}
			}
			errs = append(errs, c.remove(ctx, k.kind, name, k.path(name), p.Metadata.UID))
		}
	}
	return errors.Join(errs...)
}

// forbidden reports whether the user may not do something.
func forbidden(err error) bool {
	s, ok := errors.AsType[*kubectl.StatusError](err)
	return ok && s.Code == http.StatusForbidden
}
