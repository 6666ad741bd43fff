package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
)

// networking is the group of policies.
const networking = "/apis/networking.k8s.io/v1"

// peersEach is how many decoy rules a policy has: of objects with some thousands, API servers and plugins complain.
const peersEach = 1000

// decoyBase is the first of the ranges that no pod has: 198.19.0.0/16 is the half of what is reserved for benchmarks
// (RFC 2544, section C.2.2) that labs and test clusters do not use.
var decoyBase = netip.AddrFrom4([4]byte{198, 19, 0, 0}) //nolint:gochecknoglobals // constants cannot be addresses

// policed says whether the lab has policies.
func (l *lab) policed() bool {
	_, _, ok := stack.PartOf[filter.Decoyed](l.spec.Stack)
	return ok
}

// policies are those of a lab, none if its stack has no filter.
func (l *lab) policies() []object {
	f, params, ok := stack.PartOf[filter.Decoyed](l.spec.Stack)
	if !ok {
		return nil
	}
	all := []object{l.policy("deny", object{"matchLabels": object{labLabel: l.name}}, object{
		"policyTypes": []string{"Ingress", "Egress"},
	})}
	for i, p := range l.spec.Pairs {
		source, sink := l.selector(p.Source), l.selector(p.Sink)
		ports := l.allowed(p.Sink)
		all = append(all,
			l.policy(fmt.Sprintf("sink%d", i), sink, object{
				"policyTypes": []string{"Ingress"},
				"ingress":     []object{{"from": []object{{"podSelector": source}}, "ports": ports}},
			}),
			l.policy(fmt.Sprintf("source%d", i), source, object{
				"policyTypes": []string{"Egress"},
				"egress":      []object{{"to": l.targets(p), "ports": ports}},
			}))
	}
	decoys, at := f.Decoys(params), decoyBase
	for n := 0; n < decoys; n += peersEach {
		var peers []object
		peers, at = decoysFrom(at, min(peersEach, decoys-n))
		all = append(all, l.policy(fmt.Sprintf("decoys%d", n/peersEach), object{"matchLabels": object{labLabel: l.name}},
			object{"policyTypes": []string{"Ingress"}, "ingress": []object{{"from": peers}}}))
	}
	return all
}

// decoysFrom returns peers that never match, and the address after theirs.
func decoysFrom(at netip.Addr, n int) ([]object, netip.Addr) {
	peers := make([]object, n)
	for i := range peers {
		peers[i] = object{"ipBlock": object{"cidr": at.String() + "/32"}}
		at = at.Next()
	}
	return peers, at
}

// policy returns a policy for some pods.
func (l *lab) policy(what string, pods, spec object) object {
	return l.deployment.policy(l.name, what, pods, spec)
}

// policy returns a policy of a lab for some pods.
func (d *Deployment) policy(lab, what string, pods, spec object) object {
	spec["podSelector"] = pods
	return object{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": object{
			"name": lab + "-" + what, "ownerReferences": []object{d.owner},
			"labels": object{managedBy: manager, runLabel: d.run, labLabel: lab},
		},
		"spec": spec,
	}
}

// selector selects the pod of a container.
func (l *lab) selector(s network.Spot) object { return l.jobs[s.Host].selector(s.Container) }

// allowed are the ports of a sink that are on the list: all of its ports but the last one, which is refused.
func (l *lab) allowed(s network.Spot) (ports []object) {
	p := l.spec.Net.Hosts[s.Host].Containers[s.Container].Ports
	for _, protocol := range []string{"UDP", "TCP"} {
		ports = append(ports, object{"protocol": protocol, "port": p.First, "endPort": p.Last - 1})
	}
	return ports
}

// protect makes the policies of a lab.
func (l *lab) protect(ctx context.Context) error {
	if wholeCluster(l.spec.Stack) {
		return l.protectByAdmin(ctx)
	}
	d, all := l.deployment, l.policies()
	return d.each(ctx, len(all), "policies are made", func(ctx context.Context, i int) error {
		if err := d.client.Create(ctx, d.path(networking, "networkpolicies"), all[i], nil); err != nil {
			return fmt.Errorf("make a policy: %w", err)
		}
		return nil
	})
}

// unprotect removes them.
func (l *lab) unprotect() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also if the run was interrupted
	defer cancel()
	if d := l.deployment; wholeCluster(l.spec.Stack) {
		if d.admin == nil {
			return nil
		}
		return removeAdmin(ctx, d.client, *d.admin, labLabel+"="+l.name)
	}
	all := l.policies()
	return l.removeAll(ctx, len(all), func(i int) (what, path string) {
		meta, _ := all[i]["metadata"].(object)
		name := fmt.Sprint(meta["name"])
		return fmt.Sprintf("policy %q", name), l.deployment.path(networking, "networkpolicies") + "/" + url.PathEscape(name)
	})
}

// removeAll removes objects, some at the same time. An error does not keep others from being removed.
func (l *lab) removeAll(ctx context.Context, n int, object func(i int) (what, path string)) error {
	errs := make([]error, n)
	_ = l.deployment.each(ctx, n, "policies and services are removed", func(ctx context.Context, i int) error {
		what, path := object(i)
		if err := l.deployment.client.Delete(ctx, path, nil); err != nil && !absent(err) {
			errs[i] = fmt.Errorf("remove %s: %w", what, err)
		}
		return nil
	})
	return errors.Join(errs...)
}
