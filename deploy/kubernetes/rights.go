package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/internal/kubectl"
)

// A Right is what a user may do in a cluster, or not.
type Right struct {
	// What is the right in a few words, as in a Role: "create pods/exec".
	What string `json:"what"`
	// Without says what is not possible without it, as a sentence without its full stop.
	Without string `json:"without"`
	// Needed says that no run is possible without it.
	Needed  bool `json:"needed"`
	Granted bool `json:"granted"`

	verb, group, resource, sub string
	everywhere                 bool     // it is one of the whole cluster
	in                         string   // the namespace; "": that of the run
	names                      []string // of objects; nil: of all
}

// factRights are those by which records say what a cluster is like.
func factRights() []Right {
	const says = "records do not say "
	return []Right{
		{
			verb: "list", group: "apps", resource: "daemonsets", everywhere: true, Without: says + "which network plugin it is",
		},
		{
			verb: "get", group: attachGroup, resource: definitions, everywhere: true,
			Without: "it is not known before pods are made whether the network of cni(secondary=…) is there, and " + says +
				"what it is",
		},
		{
			verb: "get", resource: "nodes", everywhere: true,
			Without: says + "which system, container runtime and kubelet nodes have, and labs on a node that is not ready " +
				"are given up later",
		},
		{
			verb: "get", resource: "configmaps", in: system, names: append(proxyMaps(), ciliumMap, flannelMap),
			Without: says + "how services are made, nor what Cilium's tunnel and encryption are",
		},
		{
			verb: "get", resource: "configmaps", in: ofFlannel, names: []string{flannelMap},
			Without: says + "what flannel's tunnel and encryption are",
		},
		{
			verb: "list", group: calicoGroup, resource: "ippools", everywhere: true,
			Without: says + "what Calico's tunnel is",
		},
		{
			verb: "get", group: calicoGroup, resource: "felixconfigurations", everywhere: true, names: []string{"default"},
			Without: says + "what Calico's encryption is",
		},
	}
}

// createsExec reports whether an API server of that version, such as v1.35.4, asks for the right to create pods/exec
// when a program is started by WebSocket. An unknown version may.
func createsExec(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "v%d.%d", &major, &minor)
	return n < 2 || major > 1 || minor >= 35
}

// adminRights are those that runs with policies of the whole cluster use.
func adminRights(k adminKind) (list []Right) {
	for _, verb := range adminVerbs() {
		list = append(list, Right{
			verb: verb, group: policyGroup, resource: k.resource, everywhere: true,
			Without: "networkpolicy(kind=admin) cannot be measured",
		})
	}
	return list
}

// toUnlimit is the right to take the limit of the scouts' Jobs away.
func toUnlimit() Right {
	return Right{
		verb: "patch", group: "batch", resource: "jobs",
		Without: "what a run has made stays until nettoll clean --cluster if it is killed before its first pods run",
	}
}

// rights are those that runs use on a cluster of a version.
func rights(version string) []Right {
	const noRun = "no run is possible"
	return append([]Right{
		{verb: "create", group: "batch", resource: "jobs", Needed: true, Without: noRun},
		{verb: "get", group: "batch", resource: "jobs", Needed: true, Without: noRun},
		{verb: "delete", group: "batch", resource: "jobs", Needed: true, Without: noRun},
		toUnlimit(),
		{verb: "list", resource: "pods", Needed: true, Without: noRun},
		{verb: "get", resource: "pods", sub: "exec", Needed: true, Without: noRun},
		{
			// AuthorizePodWebsocketUpgradeCreatePermission, pkg/features of k8s.io/kubernetes
			verb: "create", resource: "pods", sub: "exec", Needed: createsExec(version),
			Without: noRun + " from Kubernetes 1.35 on",
		},
		{verb: "list", resource: "events", Without: "it is not known why a Job gets no pods"},
		{
			verb: "create", group: "networking.k8s.io", resource: "networkpolicies",
			Without: "the filter networkpolicy cannot be measured",
		},
		{
			verb: "delete", group: "networking.k8s.io", resource: "networkpolicies",
			Without: "policies stay until the run has ended",
		},
		{verb: "create", resource: "services", Without: "cni(via=clusterip) and cni(via=nodeport) cannot be measured"},
		{verb: "delete", resource: "services", Without: "services stay until the run has ended"},
		{
			verb: "create", group: "apps", resource: "daemonsets",
			Without: "the counters of nodes cannot be read (hosts.monitor: nodes)",
		},
		{verb: "delete", group: "apps", resource: "daemonsets", Without: "monitors of nodes stay until the run has ended"},
		{
			verb: "create", resource: "namespaces", everywhere: true,
			Without: "a namespace that exists has to be named (hosts.namespace)",
		},
		{verb: "delete", resource: "namespaces", everywhere: true, Without: "the namespace of a run is left"},
	}, factRights()...)
}

// Rights asks a cluster which rights its user has in a namespace; "" for the whole cluster. It returns the context and
// the version of the cluster, too, and changes nothing.
func Rights(ctx context.Context, o kubectl.Options, namespace string) (cluster, version string, list []Right,
	err error,
) {
	client, err := kubectl.Open(ctx, o)
	if err != nil {
		return "", "", nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	kind, err := findAdmin(ctx, client.Get)
	if err != nil || kind == nil { // the rights may be there before the kind is
		kind = &adminKinds()[0]
	}
	list = append(rights(client.Version()), adminRights(*kind)...)
	group, ctx := errgroup.WithContext(ctx)
	for i := range list {
		r := &list[i]
		r.What = r.name()
		group.Go(func() (err error) {
			if r.Granted, err = granted(ctx, client, namespace, *r); err != nil {
				return fmt.Errorf("ask for the right to %s: %w", r.What, err)
			}
			return nil
		})
	}
	return client.Context(), client.Version(), list, group.Wait()
}

// name is the right in a few words.
func (r Right) name() string {
	name := r.verb + " " + r.resource
	if r.sub != "" {
		name += "/" + r.sub
	}
	if r.in != "" {
		name += " in " + r.in
	}
	return name
}

// granted asks whether the user has a right: for all of its names, if it has some.
func granted(ctx context.Context, client *kubectl.Client, namespace string, r Right) (bool, error) {
	asked := object{"verb": r.verb, "group": r.group, "resource": r.resource, "subresource": r.sub}
	if !r.everywhere {
		asked["namespace"] = cmp.Or(r.in, namespace)
	}
	names := r.names
	if names == nil {
		names = []string{""}
	}
	for _, name := range names {
		asked["name"] = name
		var answer struct {
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		if err := client.Create(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", object{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": object{"resourceAttributes": asked},
		}, &answer); err != nil || !answer.Status.Allowed {
			return false, err
		}
	}
	return true, nil
}
