package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nettoll/nettoll/network"
)

// A Cluster is a Kubernetes cluster whose nodes are the hosts of an experiment.
type Cluster struct {
	Context   string `json:"context,omitempty"`   // of the user's kubeconfig; "": the current one
	Namespace string `json:"namespace,omitempty"` // in which the pods are; "": one is made for the run
	Image     string `json:"image,omitempty"`     // of the pods; "": [DefaultImage]
}

// DefaultImage is the image of pods, as nettoll image names it.
const DefaultImage = "nettoll:latest"

// For returns what stacks on these hosts are made of: on a cluster, or on hosts of this machine if that is nil.
func (p Parts) For(c *Cluster) Parts {
	if c != nil && !p.there {
		p.Kinds, p.there = p.Cluster, true
	}
	return p
}

// Kinds of hosts.
const (
	onMachine = "local"
	onCluster = "kubernetes"
)

// clusterOf returns the cluster of an experiment that has not been read; nil if its hosts are of this machine. What it
// names is read later: first it must be known of which parts stacks are.
func clusterOf(n *node) *Cluster {
	i := n.index("hosts")
	if i < 0 {
		return nil
	}
	at := n.values[i]
	if kind := at.index("kind"); kind < 0 || at.values[kind].text != onCluster {
		return nil
	}
	return &Cluster{}
}

func hosts(e *Experiment) shape {
	number := func(s string) error { return whole(s, minHosts, maxHosts, &e.Hosts) }
	name := func(to func(*Cluster) *string) func(string) error {
		return func(s string) error {
			if e.Cluster == nil {
				return fmt.Errorf("only hosts of kind %s have one", onCluster)
			}
			if s == "" || strings.ContainsFunc(s, unicode.IsSpace) {
				return fmt.Errorf("invalid name %q (valid: a name without spaces)", s)
			}
			*to(e.Cluster) = s
			return nil
		}
	}
	return shape{
		doc: "Number and kind of the container hosts of a cross-host lab.",
		either: []shape{
			{number: true, pattern: `^[0-9]+$`, example: "2", take: number},
			{fields: []field{
				{name: "kind", shape: shape{
					doc: "Kind of the hosts.", values: []choice{
						{onMachine, "private namespaces on this machine"},
						{onCluster, "nodes of a Kubernetes cluster, in whose pods the traffic runs"},
					},
				}},
				{name: "count", alias: "nodes", required: true, shape: shape{
					doc: "Number of hosts.", number: true, pattern: `^[0-9]+$`, example: "2", take: number,
				}},
				{name: "context", shape: shape{
					doc:     "Context of the kubeconfig that names the cluster. The default is the current one.",
					example: "kind-kind", take: name(func(c *Cluster) *string { return &c.Context }),
				}},
				{name: "namespace", shape: shape{
					doc:     "Namespace of the cluster in which the pods are. The default is one that is made for the run.",
					example: "measure", take: name(func(c *Cluster) *string { return &c.Namespace }),
				}},
				{name: "image", shape: shape{
					doc:     "Image of the pods, which holds nettoll. The default is " + DefaultImage + ".",
					example: "registry.example.org/nettoll:v1", take: name(func(c *Cluster) *string { return &c.Image }),
				}},
			}},
		},
	}
}

// onCluster says what of an experiment on a cluster is not nettoll's to choose there, and where a file has it.
func (e Experiment) onCluster() (key []string, err error) {
	none := network.Medium{}
	switch {
	case e.Cluster == nil:
	case e.Underlay != none:
		return []string{"underlay"}, errors.New("underlay: the nodes of a cluster have a network of their own")
	case len(e.Factors.MTUs) > 0:
		return []string{"factors", "mtu"}, errOwnMTU
	case e.Tune.MTU != usualMTU:
		return []string{"tune", "mtu"}, errOwnMTU
	case e.Baseline.MTU > 0:
		return []string{"baseline"}, errOwnMTU
	case slices.ContainsFunc(e.Stacks, func(s Stack) bool { return s.MTU > 0 }):
		return []string{"stacks"}, errOwnMTU
	case e.Design.Probe != "":
		return []string{"design", "probe"}, fmt.Errorf("probe %s: it cannot be loaded on the nodes of a cluster",
			e.Design.Probe)
	}
	return nil, nil
}

var errOwnMTU = errors.New("mtu: the pods of a cluster have the MTU that its network plugin gives them")

// called returns the length and the warm-up of a trial of so many pairs whose turn passes by calls to the workers. In
// these calls nothing is measured: a trial is so long that they are about 5 % of it. They took 7 ms for a pair and
// 0.1 s for 15 pairs in a cluster that was all on one machine of two CPUs, and the first ones of a block three to four
// times as long. Threads begin when their machine has woken them up, and what counts begins later.
func called(length, warm time.Duration, pairs int) (time.Duration, time.Duration) {
	const least, each, late = 200 * time.Millisecond, 140 * time.Millisecond, 20 * time.Millisecond
	return max(length, least, time.Duration(pairs)*each), max(warm, late)
}
