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
	Kind string // "namespace", or the kind of a policy of the whole cluster
	Name string
	Why  string // it is left alone; "" if it was removed
}

// Cleaned is what [Clean] has done.
type Cleaned struct {
	Cluster       string // the context
	Removed, Left []Remnant
}

// Clean removes what runs whose controller was killed have left in a cluster: the namespaces that nettoll has made and
// in which there are no pods, and its policies of the whole cluster that select pods of runs without pods. It touches
// nothing else.
func Clean(ctx context.Context, o kubectl.Options) (done Cleaned, err error) {
	client, err := kubectl.Open(ctx, o)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	done = Cleaned{Cluster: client.Context()}
	return done, errors.Join(cleanNamespaces(ctx, client, &done), cleanAdmin(ctx, client, &done))
}

// namespaceKind is the kind of a namespace in a [Remnant].
const namespaceKind = "namespace"

// leave notes that something is left alone.
func (c *Cleaned) leave(kind, name, why string) { c.Left = append(c.Left, Remnant{kind, name, why}) }

// madeByUs selects what nettoll has made.
func madeByUs() string { return url.Values{"labelSelector": {managedBy + "=" + manager}}.Encode() }

// cleanNamespaces removes namespaces.
func cleanNamespaces(ctx context.Context, client *kubectl.Client, done *Cleaned) error {
	var list struct {
		Items []struct {
			Metadata struct {
				Name     string    `json:"name"`
				Created  time.Time `json:"creationTimestamp"`
				Deletion string    `json:"deletionTimestamp"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := client.Get(ctx, core+"/namespaces?"+madeByUs(), &list); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	var errs []error
	for _, n := range list.Items {
		name, path := n.Metadata.Name, core+"/namespaces/"+url.PathEscape(n.Metadata.Name)
		var pods podList
		err := client.Get(ctx, path+"/pods?limit=1", &pods)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("list the pods of namespace %q: %w", name, err))
		case n.Metadata.Deletion != "":
			done.leave(namespaceKind, name, "it is being removed")
		case len(pods.Items) > 0:
			done.leave(namespaceKind, name, "there are pods in it, which end by themselves if their run was killed")
		case time.Since(n.Metadata.Created) < young:
			done.leave(namespaceKind, name, fmt.Sprintf("it is younger than %v: its run may just begin", young))
		default:
			if err := client.Delete(ctx, path, nil); err != nil {
				errs = append(errs, fmt.Errorf("remove namespace %q: %w", name, err))
				continue
			}
			done.Removed = append(done.Removed, Remnant{Kind: namespaceKind, Name: name})
		}
	}
	return errors.Join(errs...)
}

// cleanAdmin removes policies of the whole cluster whose runs have no pods any more. A user who may not list them has
// made none.
func cleanAdmin(ctx context.Context, client *kubectl.Client, done *Cleaned) error {
	var errs []error
	for _, k := range adminKinds() {
		var list adminList
		if err := client.Get(ctx, k.path()+"?"+madeByUs(), &list); absent(err) || forbidden(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("list the policies of the whole cluster: %w", err)
		}
		for _, p := range list.Items {
			name, in := p.Metadata.Name, p.Metadata.Labels[namespaceLabel]
			path := core + "/namespaces/" + url.PathEscape(in) + "/pods?" + url.Values{
				"labelSelector": {runLabel + "=" + p.Metadata.Labels[runLabel]}, "limit": {"1"},
			}.Encode()
			var pods podList
			if in == "" {
				done.leave(k.kind, name, "it has no label "+namespaceLabel)
				continue
			}
			if err := client.Get(ctx, path, &pods); err != nil {
				errs = append(errs, fmt.Errorf("list the pods of namespace %q: %w", in, err))
				continue
			}
			if len(pods.Items) > 0 {
				done.leave(k.kind, name, "its run has pods, which end by themselves if it was killed")
				continue
			}
			if err := client.Delete(ctx, k.path(name), nil); err != nil && !absent(err) {
				errs = append(errs, fmt.Errorf("remove %s %q: %w", k.kind, name, err))
				continue
			}
			done.Removed = append(done.Removed, Remnant{Kind: k.kind, Name: name})
		}
	}
	return errors.Join(errs...)
}

// forbidden reports whether the user may not do something.
func forbidden(err error) bool {
	s, ok := errors.AsType[*kubectl.StatusError](err)
	return ok && s.Code == http.StatusForbidden
}
