package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
)

const (
	// policyGroup is the group of policies of a whole cluster (https://network-policy-api.sigs.k8s.io).
	policyGroup = "policy.networking.k8s.io"
	// nameLabel is the label that Kubernetes gives each namespace: its name (KEP 2161).
	nameLabel = "kubernetes.io/metadata.name"
	// namespaceLabel says in which namespace the pods of a policy of the cluster are.
	namespaceLabel = "nettoll/namespace"
	// decoyLabel is the label by which decoy rules name namespaces. No namespace has it.
	decoyLabel = "nettoll/decoy"
)

// adminPolicies is the fact that says which kind of policies of the whole cluster a cluster serves.
const adminPolicies = "admin_policies"

// An adminKind is a kind of policies of a whole cluster.
type adminKind struct {
	kind, version, resource string
	accept                  string // the action of a rule that lets traffic pass
	tier                    string // "": the kind has no tiers
	// most is how many rules for a direction a policy may have, and how many peers a rule (MaxItems of the definition in
	// apis/VERSION of sigs.k8s.io/network-policy-api).
	most int
	// networks says that peers of egress rules may be address ranges, which AdminNetworkPolicy has only in the
	// experimental channel of its definitions.
	networks bool
}

// adminKinds lists the kinds. The first one that a cluster serves is used.
func adminKinds() []adminKind {
	return []adminKind{
		{kind: "AdminNetworkPolicy", version: "v1alpha1", resource: "adminnetworkpolicies", accept: "Allow", most: 100},
		{
			kind: "ClusterNetworkPolicy", version: "v1alpha2", resource: "clusternetworkpolicies", accept: "Accept",
			tier: "Admin", most: 25,
		},
	}
}

// path is that of the policies, or of one of them.
func (k adminKind) path(name ...string) string {
	parts := []string{"/apis", policyGroup, k.version, k.resource}
	for _, n := range name {
		parts = append(parts, url.PathEscape(n))
	}
	return strings.Join(parts, "/")
}

// String is the kind with its version, and what it lacks.
func (k adminKind) String() string {
	s := k.kind + " " + k.version
	if !k.networks {
		s += " without networks"
	}
	return s
}

// A schema is what the API tells of a kind (OpenAPI 3.0), as far as it is needed here.
type schema struct {
	Kinds []struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
}

// at returns what is there, below properties and in elements of lists; nil if there is nothing.
func (s *schema) at(path ...string) *schema {
	for _, name := range path {
		if s != nil {
			s = s.Properties[name]
		}
		if s != nil && s.Items != nil {
			s = s.Items
		}
	}
	return s
}

// findAdmin returns the kind of policies of the whole cluster that a cluster serves, nil if none.
func findAdmin(ctx context.Context, get getter) (*adminKind, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for _, k := range adminKinds() {
		var served struct {
			Resources []struct {
				Name string `json:"name"`
			} `json:"resources"`
		}
		version := "/apis/" + policyGroup + "/" + k.version
		if err := get(ctx, version, &served); absent(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("ask which policies of the whole cluster there are: %w", err)
		}
		if !slices.ContainsFunc(served.Resources, func(r struct {
			Name string `json:"name"`
		},
		) bool {
			return r.Name == k.resource
		}) {
			continue
		}
		var document struct {
			Components struct {
				Schemas map[string]*schema `json:"schemas"`
			} `json:"components"`
		}
		// An API server before Kubernetes 1.27 may have no such document: then networks are not used.
		if err := get(ctx, "/openapi/v3"+version, &document); err != nil && !absent(err) {
			return nil, fmt.Errorf("ask what kind %s has: %w", k.kind, err)
		}
		for _, s := range document.Components.Schemas {
			if s != nil && len(s.Kinds) > 0 && s.Kinds[0].Kind == k.kind {
				k.networks = s.at("spec", "egress", "to", "networks") != nil
			}
		}
		return &k, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// wholeCluster says whether the filter of a stack has policies of the whole cluster.
func wholeCluster(of stack.Stack) bool {
	f, params, ok := stack.PartOf[filter.ClusterWide](of)
	return ok && f.WholeCluster(params)
}

// adminVerbs are the rights that runs with policies of the whole cluster use.
func adminVerbs() []string { return []string{"list", "create", "delete"} }

// admissible returns nil, or why a stack cannot have its policies of the whole cluster, as far as that can be known
// before they are made.
func (d *Deployment) admissible(ctx context.Context, of stack.Stack) error {
	if !wholeCluster(of) {
		return nil
	}
	if err := servesAdmin(d.admin, d.adminErr, of); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for _, verb := range adminVerbs() {
		r := Right{verb: verb, group: policyGroup, resource: d.admin.resource, everywhere: true}
		ok, err := granted(ctx, d.client, d.namespace, r)
		if err != nil {
			return fmt.Errorf("ask for the right to %s: %w", r.name(), err)
		}
		if !ok {
			return &linux.UnsupportedError{
				What: makePolicies, Missing: fmt.Sprintf("right to %s in the whole cluster", r.name()),
				Hint: "packaging/kubernetes/admin.yaml grants it",
			}
		}
	}
	return nil
}

// makePolicies is what policies of the whole cluster are for, in errors.
const makePolicies = "make policies of the whole cluster"

// servesAdmin returns nil, or what a cluster lacks for a stack with policies of the whole cluster. Kind is what it has
// of them, nil if nothing, and err why that is not known.
func servesAdmin(kind *adminKind, err error, of stack.Stack) error {
	if err != nil {
		return err
	}
	if kind == nil {
		var names []string
		for _, k := range adminKinds() {
			names = append(names, k.kind+" "+k.version)
		}
		return &linux.UnsupportedError{
			What: makePolicies, Missing: "kind " + strings.Join(names, " or ") + " of " + policyGroup + " in the cluster",
			Hint: "install the definitions of sigs.k8s.io/network-policy-api and a network plugin that enforces them, or " +
				"leave out kind=admin",
		}
	}
	if p, params, ok := stack.PartOf[network.HostPublisher](of); ok && !kind.networks {
		if _, ok := p.PublishedAt(network.Pair{}, params); ok {
			return &linux.UnsupportedError{
				What: makePolicies, Missing: "field networks of kind " + kind.kind + ", by which sources may send to nodes",
				Hint: "install the experimental channel of its definitions, or choose another via than nodeport",
			}
		}
	}
	return nil
}

// The priorities of the policies of a lab, after that of its decoys. A policy with a smaller number is checked first.
// They are consecutive: nobody's policy is between them.
//
// If two policies of equal priority match a connection, the API does not say which one is applied. So the priorities
// are none that policies of others have, see [freePriority]. Two policies of nettoll that share one never decide
// differently:
//
//   - All policies with the priority of decoys accept, and match nothing.
//   - All policies with the priority of pairs accept. Whichever is applied, the connection passes.
//   - Policies that deny are the last ones, and each lab has one. Their pods are those of the lab alone, by its label.
const (
	pairPriority = 1 // after that of decoys
	denyPriority = 2
	// lastPriority is the largest number of a priority: policies with it are checked last (maximum of spec.priority).
	lastPriority = 1000
)

// freePriority returns the priority of decoys: the largest number for which neither it nor the next two are those of a
// policy of somebody else. So policies of others come first, and nettoll does not open what they close.
func freePriority(taken []int) (int, error) {
	for p := lastPriority - denyPriority; p >= 0; p-- {
		if !slices.ContainsFunc(taken, func(t int) bool { return t >= p && t <= p+denyPriority }) {
			return p, nil
		}
	}
	return 0, errors.New("no three consecutive priorities from 0 to 1000 are free: other policies of the whole cluster " +
		"have them")
}

// An adminList is what the API tells of policies of the whole cluster.
type adminList struct {
	Items []struct {
		Metadata struct {
			Name    string            `json:"name"`
			Labels  map[string]string `json:"labels"`
			Created string            `json:"creationTimestamp"`
		} `json:"metadata"`
		Spec struct {
			Tier     string `json:"tier"`
			Priority int    `json:"priority"`
		} `json:"spec"`
	} `json:"items"`
}

// takenPriorities are those of policies that are not nettoll's.
func (l adminList) takenPriorities(tier string) (list []int) {
	for _, p := range l.Items {
		if p.Metadata.Labels[managedBy] != manager && p.Spec.Tier == tier {
			list = append(list, p.Spec.Priority)
		}
	}
	return list
}

// adminPoliciesOf are the policies of the whole cluster for a lab, which begin with a priority. Those that deny need no
// ports: a rule without them is about all protocols. Ingress rules know pods only, so the policies refuse nothing that
// nodes and machines outside the cluster send to pods.
func (l *lab) adminPoliciesOf(k adminKind, priority int) []object {
	f, params, ok := stack.PartOf[filter.Decoyed](l.spec.Stack)
	if !ok {
		return nil
	}
	everybody := []object{{"namespaces": object{}}}
	anywhere := everybody
	if k.networks {
		anywhere = append(slices.Clone(everybody), object{"networks": []string{"0.0.0.0/0", "::/0"}})
	}
	whole := object{"matchLabels": object{labLabel: l.name}}
	all := []object{l.adminPolicy(k, "deny", priority+denyPriority, whole, object{
		"ingress": []object{{"action": "Deny", "from": everybody}}, "egress": []object{{"action": "Deny", "to": anywhere}},
	})}
	for i, p := range l.spec.Pairs {
		source, sink := l.selector(p.Source), l.selector(p.Sink)
		rule := func(key string, peers []object) []object {
			of := l.portsOf(p.Sink)
			r := object{"action": k.accept, key: peers}
			k.limit(r, int(of.First), int(of.Last)-1) // the last one is refused
			return []object{r}
		}
		all = append(all,
			l.adminPolicy(k, fmt.Sprintf("sink%d", i), priority+pairPriority, sink, object{
				"ingress": rule("from", []object{l.inNamespace(source)}),
			}),
			l.adminPolicy(k, fmt.Sprintf("source%d", i), priority+pairPriority, source, object{
				"egress": rule("to", l.adminTargets(p)),
			}))
	}
	decoys := f.Decoys(params)
	for n, each := 0, min(peersEach, k.most*k.most); n < decoys; n += each {
		var rules []object
		for from, end := n, min(n+each, decoys); from < end; from += k.most {
			var peers []object
			for i := from; i < min(from+k.most, end); i++ {
				peers = append(peers, object{"namespaces": object{"matchLabels": object{decoyLabel: fmt.Sprint(i)}}})
			}
			rules = append(rules, object{"action": k.accept, "from": peers})
		}
		all = append(all, l.adminPolicy(k, fmt.Sprintf("decoys%d", n/each), priority, whole, object{"ingress": rules}))
	}
	return all
}

// adminTargets are what the source of a pair may send to, see [lab.targets].
func (l *lab) adminTargets(pair network.Pair) []object {
	list := []object{l.inNamespace(l.selector(pair.Sink))}
	at, ok := l.gate(pair)
	if !ok {
		return list
	}
	var nodes []string
	for _, a := range []netip.Addr{at.ipv4, at.ipv6} {
		if a.IsValid() {
			nodes = append(nodes, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	if len(nodes) > 0 {
		list = append(list, object{"networks": nodes})
	}
	return list
}

// limit has a rule be about ports of UDP and TCP.
func (k adminKind) limit(rule object, first, last int) {
	var list []object
	for _, protocol := range []string{"UDP", "TCP"} {
		if k.tier != "" {
			port := object{"range": object{"start": first, "end": last}}
			if first == last { // a range has two ports at least
				port = object{"number": first}
			}
			list = append(list, object{strings.ToLower(protocol): object{"destinationPort": port}})
			continue
		}
		port := object{"portRange": object{"protocol": protocol, "start": first, "end": last}}
		if first == last {
			port = object{"portNumber": object{"protocol": protocol, "port": first}}
		}
		list = append(list, port)
	}
	if k.tier != "" {
		rule["protocols"] = list
		return
	}
	rule["ports"] = list
}

// inNamespace is a peer: pods of the namespace of the run.
func (l *lab) inNamespace(pods object) object {
	return object{"pods": object{
		"namespaceSelector": object{"matchLabels": object{nameLabel: l.deployment.namespace}}, "podSelector": pods,
	}}
}

// adminPolicy returns a policy of the whole cluster for some pods of the lab. The cluster removes it with the
// namespace, if that was made for the run: an object of the whole cluster can belong to no Job.
func (l *lab) adminPolicy(k adminKind, what string, priority int, pods, spec object) object {
	d := l.deployment
	spec["priority"], spec["subject"] = priority, l.inNamespace(pods)
	if k.tier != "" {
		spec["tier"] = k.tier
	}
	meta := object{
		"name":   l.name + "-" + what,
		"labels": object{managedBy: manager, runLabel: d.run, labLabel: l.name, namespaceLabel: d.namespace},
	}
	if d.within != nil {
		meta["ownerReferences"] = []object{d.within}
	}
	return object{"apiVersion": policyGroup + "/" + k.version, "kind": k.kind, "metadata": meta, "spec": spec}
}

// protectByAdmin makes the policies of the whole cluster for a lab.
func (l *lab) protectByAdmin(ctx context.Context) error {
	d := l.deployment
	if err := servesAdmin(d.admin, d.adminErr, l.spec.Stack); err != nil {
		return err
	}
	var list adminList
	if err := d.client.Get(ctx, d.admin.path(), &list); err != nil {
		return fmt.Errorf("list the policies of the whole cluster: %w", err)
	}
	priority, err := freePriority(list.takenPriorities(d.admin.tier))
	if err != nil {
		return err
	}
	d.usesAdmin.Store(true)
	for _, p := range l.adminPoliciesOf(*d.admin, priority) {
		if err := d.client.Create(ctx, d.admin.path(), p, nil); err != nil {
			return fmt.Errorf("make a policy of the whole cluster: %w", err)
		}
	}
	return nil
}

// removeAdmin removes the policies of the whole cluster that have labels.
func removeAdmin(ctx context.Context, client *kubectl.Client, k adminKind, labels string) error {
	var list adminList
	if err := client.Get(ctx, k.path()+"?"+url.Values{"labelSelector": {labels}}.Encode(), &list); err != nil {
		return fmt.Errorf("list the policies of the whole cluster: %w", err)
	}
	var errs []error
	for _, p := range list.Items {
		if err := client.Delete(ctx, k.path(p.Metadata.Name), nil); err != nil && !absent(err) {
			errs = append(errs, fmt.Errorf("remove %s %q: %w", k.kind, p.Metadata.Name, err))
		}
	}
	return errors.Join(errs...)
}

// unprotectByAdmin removes the policies of the whole cluster that the run still has.
func (d *Deployment) unprotectByAdmin() error {
	if !d.usesAdmin.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also if the run was interrupted
	defer cancel()
	return removeAdmin(ctx, d.client, *d.admin, runLabel+"="+d.run)
}
