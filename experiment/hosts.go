package experiment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// A Cluster is a Kubernetes cluster whose nodes are the hosts of an experiment.
type Cluster struct {
	Name      string `json:"name,omitempty"`      // among those of an experiment with several
	Context   string `json:"context,omitempty"`   // of the user's kubeconfig; "": the current one
	Namespace string `json:"namespace,omitempty"` // in which the pods are; "": one is made for the run
	Image     string `json:"image,omitempty"`     // of the pods; "": [DefaultImage]
	Monitor   string `json:"monitor,omitempty"`   // what is read of the nodes: [MonitorNodes], [MonitorWire]; "": nothing
}

const (
	// MonitorNodes has the counters of the nodes of a cluster read.
	MonitorNodes = "nodes"
	// MonitorWire also has nodes listen to each other.
	MonitorWire = "wire"
)

// DefaultImage is the image of pods, as nettoll image names it.
const DefaultImage = "nettoll:latest"

// For returns what stacks on these hosts are made of: on clusters, or on hosts of this machine if there are none.
func (p Parts) For(clusters []Cluster) Parts {
	if clusters != nil && !p.there {
		p.Kinds, p.there = p.Cluster, true
	}
	return p
}

// Kinds of hosts.
const (
	onMachine = "local"
	onCluster = "kubernetes"
)

// maxClusters is the largest number of clusters of an experiment.
const maxClusters = 8

// clustersOf returns the clusters of an experiment that has not been read, with their names; nil if its hosts are of
// this machine. What else they have is read later: first it must be known of which parts stacks are.
func clustersOf(n *node) []Cluster {
	i := n.index("hosts")
	if i < 0 {
		return nil
	}
	at := n.values[i]
	if at.kind != list {
		if text, _ := at.texts("kind"); text != onCluster {
			return nil
		}
		return []Cluster{{}}
	}
	clusters := make([]Cluster, len(at.values))
	for i, item := range at.values {
		c := &clusters[i]
		c.Name, _ = item.texts("name")
		if context, ok := item.texts("context"); ok && c.Name == "" && word(context, &c.Name) != nil {
			c.Name = fmt.Sprintf("cluster%d", i+1)
		}
	}
	return clusters
}

// texts returns the text of a key, and whether there is one.
func (n *node) texts(key string) (string, bool) {
	i := n.index(key)
	if i < 0 || n.values[i].kind != scalar {
		return "", false
	}
	return n.values[i].text, true
}

func hosts(e *Experiment) shape {
	read := 0 // clusters of a list
	number := func(s string) error { return whole(s, minHosts, maxHosts, &e.Hosts) }
	name := func(to func(*Cluster) *string) func(string) error {
		return func(s string) error {
			if e.Clusters == nil {
				return errOnCluster
			}
			if s == "" || strings.ContainsFunc(s, unicode.IsSpace) {
				return fmt.Errorf("invalid name %q (valid: a name without spaces)", s)
			}
			*to(&e.Clusters[read]) = s
			return nil
		}
	}
	count := shape{doc: "Number of hosts.", number: true, pattern: `^[0-9]+$`, example: "2", take: number}
	there := choice{onCluster, "nodes of a Kubernetes cluster, in whose pods the traffic runs"}
	which := []field{
		{name: "context", shape: shape{
			doc:     "Context of the kubeconfig that names the cluster. The default is the current one; a list has no default.",
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
		{name: "monitor", shape: shape{
			doc: "What is read of the nodes besides what pods see. The default is none.",
			values: []choice{
				{MonitorNodes, "CPU, softirqs, memory and devices of each node, by a pod that shares its network and processes"},
				{MonitorWire, "the same, and nodes listen to each other during proofs, with the capability NET_RAW"},
				{stack.None, "nothing"},
			},
			take: func(s string) error {
				if e.Clusters == nil {
					return errOnCluster
				}
				if e.Clusters[read].Monitor = ""; s != stack.None {
					e.Clusters[read].Monitor = s
				}
				return nil
			},
		}},
	}
	each := slices.Clone(which)
	each[0].required = true
	lines, nodes := map[string]int{}, 0
	return shape{
		doc: "Number and kind of the container hosts of a cross-host lab.",
		either: []shape{
			{number: true, pattern: `^[0-9]+$`, example: "2", take: number},
			{fields: append([]field{
				{name: "kind", shape: shape{
					doc: "Kind of the hosts.", values: []choice{{onMachine, "private namespaces on this machine"}, there},
				}},
				{name: "count", alias: "nodes", required: true, shape: count},
			}, which...)},
			{
				doc: "Several clusters, with equally many nodes each: what the factors make is measured on each of them, in the " +
					"same blocks.",
				least: 2, most: maxClusters,
				items: &shape{
					fields: append([]field{
						{name: "kind", required: true, shape: shape{doc: "Kind of the hosts.", values: []choice{there}}},
						{name: "count", alias: "nodes", required: true, shape: count},
						{name: "name", shape: shape{
							doc: "Name of the cluster in tables and ids. The default is its context, if that is letters, digits, '.', " +
								"'_' and '-', or else cluster1, cluster2 and so on.",
							example: "calico", pattern: `^[A-Za-z0-9][A-Za-z0-9._-]*$`,
							take: func(s string) error { return word(s, &e.Clusters[read].Name) },
						}},
					}, each...),
					done: func(n *node) error {
						c := e.Clusters[read]
						for _, of := range [][2]string{{"context", c.Context}, {"name", c.Name}} {
							said := fmt.Sprintf("%s %q", of[0], of[1])
							if line, twice := lines[said]; twice {
								return n.wrong("hosts: two clusters have the %s%s", said, first(line))
							}
							lines[said] = n.line
						}
						if nodes == 0 {
							nodes = e.Hosts
						}
						if e.Hosts != nodes {
							return n.wrong("hosts: a cluster with %d nodes beside one with %d (valid: equally many)", e.Hosts, nodes)
						}
						read++
						return nil
					},
				},
			},
		},
	}
}

// spread puts stacks on clusters, if there are several: those that the factors make on each of them, unless the factors
// say on which, and others on the first one, unless they name another one.
func (e *Experiment) spread(kinds stack.Kinds) (err error) {
	kind, usual := clustered(kinds)
	if len(e.Clusters) < 2 || kind == "" {
		return nil
	}
	on := func(c stack.Choice, cluster string) stack.Choice {
		name, given := usual, part.Params{}
		if c.Kind != nil {
			name, given = c.Part.Name, maps.Clone(c.Params)
		}
		given[stack.Cluster] = cluster
		chosen, wrong := kinds.Choose(kind, name, given)
		err = errors.Join(err, wrong)
		return chosen
	}
	first := func(s *Stack) {
		if stack.OnCluster(s.Parts) == "" {
			c, _ := s.Parts.Of(kind)
			s.Parts = s.Parts.With(on(c, e.Clusters[0].Name))
		}
	}
	first(&e.Baseline)
	for i := range e.Stacks {
		first(&e.Stacks[i])
	}
	if e.Factors.Parts == nil {
		return err
	}
	given := e.Factors.Of(kind)
	e.Factors.Parts = slices.DeleteFunc(e.Factors.Parts, func(of stack.Stack) bool {
		return of[0].Kind.Describe().Name == kind
	})
	if given == nil {
		given = []stack.Choice{{}}
	}
	for _, c := range given {
		if stack.OnCluster(stack.Stack{c}) != "" {
			e.Factors.Add(kinds, c)
			continue
		}
		for _, cluster := range e.Clusters {
			e.Factors.Add(kinds, on(c, cluster.Name))
		}
	}
	return err
}

// clustered returns the kind, and its first part, that says on which cluster a stack is; "" if there is none.
func clustered(kinds stack.Kinds) (kind, name string) {
	for _, k := range kinds {
		for _, p := range k.Parts() {
			if slices.Contains(p.Params.Names(), stack.Cluster) {
				return k.Describe().Name, p.Name
			}
		}
	}
	return "", ""
}

// unknown returns the first choice of a cluster that the experiment does not have.
func (e Experiment) unknown() (stack.Choice, error) {
	var known []string
	for _, c := range e.Clusters {
		known = append(known, c.Name)
	}
	all := slices.Clone(e.Baseline.Parts)
	for _, choices := range e.Factors.Parts {
		all = append(all, choices...)
	}
	for _, s := range e.Stacks {
		all = append(all, s.Parts...)
	}
	for _, c := range all {
		if name := c.Params[stack.Cluster]; name != "" && !slices.Contains(known, name) {
			if len(e.Clusters) < 2 {
				return c, fmt.Errorf("cluster %q: hosts lists no clusters with names", name)
			}
			return c, &UnknownError{Kind: "cluster", Name: name, Known: known}
		}
	}
	return stack.Choice{}, nil
}

// onCluster says what of an experiment on a cluster is not nettoll's to choose there, and where a file has it.
func (e Experiment) onCluster() (key []string, err error) {
	none := network.Medium{}
	if c, err := e.unknown(); err != nil {
		return []string{"factors", c.Kind.Describe().Name}, err
	}
	switch {
	case e.Clusters == nil:
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

var errOnCluster = fmt.Errorf("only hosts of kind %s have one", onCluster)

var errOwnMTU = errors.New("mtu: the pods of a cluster have the MTU that its network plugin gives them")

// called returns the length and the warm-up of a trial of so many pairs whose turn passes by calls to the workers. In
// these calls nothing is measured: a trial is so long that they are about 5 % of it. They took 7 ms for a pair and
// 0.1 s for 15 pairs in a cluster that was all on one machine of two CPUs, and the first ones of a block three to four
// times as long. Threads begin when their machine has woken them up, and what counts begins later.
func called(length, warm time.Duration, pairs int) (time.Duration, time.Duration) {
	const least, each, late = 200 * time.Millisecond, 140 * time.Millisecond, 20 * time.Millisecond
	return max(length, least, time.Duration(pairs)*each), max(warm, late)
}
