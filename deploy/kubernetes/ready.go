package kubernetes

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// readyLook is how long pods wait, to run or to go, until nettoll asks whether their node is ready, and the pause
// between two such requests. Each is about one node.
const readyLook = 3 * time.Second

// notReady returns why a node runs nothing new and removes nothing: a sentence about it. It returns "" if the node
// does, or if the user may not know.
func (d *Deployment) notReady(ctx context.Context, name string) string {
	return d.nodeRefuses(ctx, name, false)
}

// takesNone returns why a node gets no pod that has no node yet: it is not ready, or somebody has cordoned it.
func (d *Deployment) takesNone(ctx context.Context, name string) string {
	return d.nodeRefuses(ctx, name, true)
}

func (d *Deployment) nodeRefuses(ctx context.Context, name string, unplaced bool) string {
	if name == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var n nodeObject
	switch err := d.client.Get(ctx, core+"/nodes/"+url.PathEscape(name), &n); {
	case absent(err):
		return fmt.Sprintf("node %q is not there any more", name)
	case err != nil:
		return ""
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return fmt.Sprintf("node %q is not ready%s", name, because(c.Reason, c.Message))
		}
	}
	if unplaced && n.Spec.Unschedulable {
		return fmt.Sprintf("node %q gets no new pods: it is cordoned", name)
	}
	return ""
}

// stuck returns why pods with a label do not go, of which one is known: all of them are on nodes that are not ready. It
// returns "" if some may go.
func (d *Deployment) stuck(ctx context.Context, label, value string, one pod) string {
	why := d.notReady(ctx, one.Spec.Node)
	if why == "" {
		return ""
	}
	all, err := d.podsWith(ctx, label, value)
	if err != nil {
		return ""
	}
	seen := map[string]bool{one.Spec.Node: true}
	for _, p := range all {
		if !seen[p.Spec.Node] && d.notReady(ctx, p.Spec.Node) == "" {
			return ""
		}
		seen[p.Spec.Node] = true
	}
	return why
}
