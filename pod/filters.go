package pod

import (
	"errors"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// filters is the kind of filters that a cluster has.
type filters struct{}

// Describe returns the description of the kind.
func (filters) Describe() stack.Description {
	return stack.Description{
		Name: "filter", Plural: "filters", Summary: "Enforces an allow-list.", Sign: "+", Default: stack.None,
	}
}

// Parts lists the filters.
func (filters) Parts() []stack.Part {
	return []stack.Part{{Value: NetworkPolicy{}, Description: NetworkPolicy{}.Describe().Description}}
}

// Refuse returns why the filter of a stack means nothing there.
func (filters) Refuse(s stack.Stack, _ int) string {
	f, _ := filter.Of(s)
	if shared, params, ok := stack.PartOf[network.Sharer](s); f != nil && ok && shared.Shares(params) {
		return "policies do not apply to pods that share the network of their node (choose network cni)"
	}
	if a, params, ok := stack.PartOf[network.Attacher](s); f != nil && ok && a.Attached(params) != "" {
		return "policies do not apply to the second interface of pods (leave out secondary)"
	}
	return ""
}

// Enforced says where the filter of a stack is.
func (filters) Enforced(s stack.Stack) string {
	if f, _ := filter.Of(s); f == nil {
		return ""
	}
	return "by the network plugin of the cluster"
}

// Metrics declares what it takes until policies are enforced.
func (filters) Metrics() []measure.Metric {
	return []measure.Metric{{
		Name: filter.EnforceTime, Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
		Label: "enforced", Order: 765,
		Summary: "time from when the workers of a lab run until everything on the list passes, and what is tried of the " +
			"rest does not",
	}}
}

// NetworkPolicy is the filter of Kubernetes: policies that name pods, and which its network plugin enforces, or does
// not (https://kubernetes.io/docs/concepts/services-networking/network-policies). All pods of a lab refuse whatever
// comes and goes, but what each pair may send: from its source to its sink, at the ports of the list. They name no
// addresses, so a pair may talk in each family. The policies are those of the lab's namespace, or those of the whole
// cluster (https://network-policy-api.sigs.k8s.io).
type NetworkPolicy struct{}

// kind is the parameter that chooses the policies.
const (
	kind       = "kind"
	namespaced = "namespaced"
	admin      = "admin"
)

var (
	_ filter.Filter      = NetworkPolicy{}
	_ filter.Naming      = NetworkPolicy{}
	_ filter.Decoyed     = NetworkPolicy{}
	_ filter.ClusterWide = NetworkPolicy{}
	_ network.Ported     = NetworkPolicy{}
)

// MaxRules is the largest number of decoy rules: policies with so many peers still are objects that etcd takes.
const MaxRules = 10_000

// Describe returns the description of the filter.
func (NetworkPolicy) Describe() filter.Description {
	return filter.Description{Description: part.Description{
		Name: "networkpolicy", Implementation: "plugin",
		Summary: "policies of Kubernetes: all is refused but what each pair may send",
		Params: part.List{
			{
				Name: kind, Default: namespaced, Values: []string{namespaced, admin}, Quiet: true,
				Summary: "namespaced: NetworkPolicy, in the namespace of the pods; admin: policies of the whole cluster, which " +
					"come before those: AdminNetworkPolicy v1alpha1 or, if the cluster does not serve it, ClusterNetworkPolicy " +
					"v1alpha2",
			},
			{
				Name: filter.Rules, Default: "0", Check: part.CountBetween(0, MaxRules),
				Summary: "number of decoy rules, which never match: 0 to 10000 address ranges from which sinks may receive; with " +
					"kind=admin, whose ingress rules know no ranges, labels of namespaces that no namespace has",
			},
			{
				Name: filter.Stateful, Default: "true", Values: []string{"true"}, Quiet: true,
				Summary: "answers pass by connection tracking, as policies have it",
			},
		},
	}}
}

// Refuse returns "": [filters.Refuse] knows where they apply.
func (NetworkPolicy) Refuse(filter.Where, part.Params) string { return "" }

// Build is not possible: the cluster has the policies, and not a host of this machine.
func (NetworkPolicy) Build(filter.Site) ([]host.Step, error) {
	return nil, errors.New("policies are a cluster's (hosts: {kind: kubernetes})")
}

// Names implements [filter.Naming].
func (NetworkPolicy) Names() bool { return true }

// OnlyPorts implements [network.Ported]: rules have ports of TCP, UDP and SCTP, and whether a rule without ports allows
// echo requests is the plugin's (https://kubernetes.io/docs/concepts/services-networking/network-policies).
func (NetworkPolicy) OnlyPorts() bool { return true }

// Decoys implements [filter.Decoyed].
func (NetworkPolicy) Decoys(p part.Params) int { return p.Count(filter.Rules) }

// WholeCluster implements [filter.ClusterWide].
func (NetworkPolicy) WholeCluster(p part.Params) bool { return p[kind] == admin }
