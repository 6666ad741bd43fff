package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nettoll/nettoll/internal/kubectl"
)

// young is the age below which a namespace without pods may be that of a run that has just begun.
const young = time.Minute

// Cleaned is what [Clean] has done.
type Cleaned struct {
	Cluster string            // the context
	Removed []string          // namespaces
	Left    map[string]string // others of nettoll, and why they are left alone
}

// Clean removes the namespaces that runs whose controller was killed have left in a cluster: those that nettoll has
// made and in which there are no pods. It touches nothing else.
func Clean(ctx context.Context, o kubectl.Options) (done Cleaned, err error) {
	client, err := kubectl.Open(ctx, o)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	done = Cleaned{Cluster: client.Context(), Left: map[string]string{}}
	var list struct {
		Items []struct {
			Metadata struct {
				Name     string    `json:"name"`
				Created  time.Time `json:"creationTimestamp"`
				Deletion string    `json:"deletionTimestamp"`
			} `json:"metadata"`
		} `json:"items"`
	}
	ours := url.Values{"labelSelector": {managedBy + "=" + manager}}.Encode()
	if err := client.Get(ctx, core+"/namespaces?"+ours, &list); err != nil {
		return done, fmt.Errorf("list namespaces: %w", err)
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
			done.Left[name] = "it is being removed"
		case len(pods.Items) > 0:
			done.Left[name] = "there are pods in it, which end by themselves if their run was killed"
		case time.Since(n.Metadata.Created) < young:
			done.Left[name] = fmt.Sprintf("it is younger than %v: its run may just begin", young)
		default:
			if err := client.Delete(ctx, path, nil); err != nil {
				errs = append(errs, fmt.Errorf("remove namespace %q: %w", name, err))
				continue
			}
			done.Removed = append(done.Removed, name)
		}
	}
	return done, errors.Join(errs...)
}
