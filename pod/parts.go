package pod

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
)

// Kinds returns what stacks on a cluster are made of.
func Kinds() stack.Kinds { return stack.Kinds{networks{}, filters{}, runtimes{}} }

// networks is the kind of networks that pods can have.
type networks struct{}

// Describe returns the description of the kind.
func (networks) Describe() stack.Description {
	return stack.Description{Name: "network", Plural: "networks", Summary: "Joins a pod to its node."}
}

// Parts lists the networks, the baseline first.
func (networks) Parts() []stack.Part {
	return []stack.Part{
		{Value: Network{shared: true}, Description: part.Description{
			Name: "host", Implementation: "kernel",
			Summary: "pods share the namespace and the addresses of their node (hostNetwork)",
		}},
		{Value: Network{}, Description: part.Description{
			Name: "cni", Implementation: "plugin",
			Summary: "pods have what the network plugin of the cluster (CNI) gives them",
			Params: part.List{{
				Name: via, Default: direct, Values: []string{direct, clusterIP, nodePort},
				Summary: "how a source reaches its sink: by the address of its pod, by that of a service (ClusterIP), or by a " +
					"port of a node (NodePort)",
			}, {
				Name: node, Default: ofSink, Values: []string{ofSink, ofSource},
				Summary: "which node that is: the one of the sink, or the source's own, which sends packets on to the sink",
			}, {
				Name: secondary, Check: definition, Quiet: true,
				Summary: "NAMESPACE/NAME of a NetworkAttachmentDefinition: packets pass the second interface that pods get by it " +
					"(Multus), and not the one that every pod has",
			}},
		}},
	}
}

// Refuse returns why the network of a stack means nothing in labs with that number of nodes.
func (networks) Refuse(s stack.Stack, hosts int) string {
	_, params, ok := stack.PartOf[Network](s)
	switch {
	case ok && params[secondary] != "" && params[via] != direct:
		return "services lead to the interface that every pod has (leave out secondary or via)"
	case !ok || params[node] != ofSource:
		return ""
	case params[via] != nodePort:
		return "only via=nodeport has a node to choose (leave out node=source)"
	case hosts == 1:
		return "on one node node=source equals node=sink"
	}
	return ""
}

// Network is a network that pods can have.
type Network struct {
	shared bool // pods have that of their node
}

// via is the parameter of the network of pods that says how a source reaches its sink.
const (
	via       = "via"
	direct    = "pod"
	clusterIP = "clusterip"
	nodePort  = "nodeport"
)

// node is the parameter that says to which node a source sends.
const (
	node     = "node"
	ofSink   = "sink"
	ofSource = "source"
)

// secondary is the parameter that names what a second interface of pods is attached to.
const secondary = "secondary"

// definition checks the name of a NetworkAttachmentDefinition.
func definition(text string) (string, error) {
	if text != "" && !definitions.MatchString(text) {
		return "", fmt.Errorf("invalid name %q of a NetworkAttachmentDefinition (valid: NAMESPACE/NAME)", text)
	}
	return text, nil
}

// definitions matches the name of a namespace (a DNS label) and that of an object in it (a DNS subdomain), as
// Kubernetes has them. An annotation that asks for several interfaces has more, which this is not.
var definitions = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

var (
	_ network.Attacher      = Network{}
	_ network.Tracer        = Network{}
	_ network.Sharer        = Network{}
	_ network.HostPublisher = Network{}
	_ network.Translator    = Network{}
)

// Shares implements [network.Sharer].
func (n Network) Shares(part.Params) bool { return n.shared }

// Publishes implements [network.Publisher]: a service has a rule for each of its ports.
func (Network) Publishes(p part.Params) bool { return p[via] == clusterIP || p[via] == nodePort }

// PublishedAt implements [network.HostPublisher].
func (Network) PublishedAt(pair network.Pair, p part.Params) (host int, ok bool) {
	if p[node] == ofSource {
		return pair.Source.Host, p[via] == nodePort
	}
	return pair.Sink.Host, p[via] == nodePort
}

// Translates implements [network.Translator]: the address of a service is nobody's, and that of a node not the pod's.
func (n Network) Translates(_ int, p part.Params) bool { return n.Publishes(p) }

// Attached implements [network.Attacher].
func (Network) Attached(p part.Params) string { return p[secondary] }

// Trace implements [network.Tracer]. What the packets pass between the interfaces of pods is the cluster's. There is
// more to hear than that, if others are on the network.
func (Network) Trace(t network.Trip) (w network.Way) {
	w.Sent(t.From.Host, t.From.Endpoint.Namespace, t.From.Endpoint.Inner, "")
	w.Received(t.To.Host, t.To.Endpoint.Namespace, t.To.Endpoint.Inner, "")
	w.Counters[1].Repeats = true
	w.Avoided = []network.Count{{
		Host: t.From.Host.Index, Counter: host.Sent(t.From.Endpoint.Namespace, network.Inner, ""),
	}}
	return w
}

// runtimes is the kind of runtimes, of which a cluster has one.
type runtimes struct{}

// Describe returns the description of the kind.
func (runtimes) Describe() stack.Description {
	return stack.Description{
		Name: "runtime", Plural: "runtimes", Summary: "Makes the containers.", Sign: "@", Default: name,
	}
}

const name = "pod"

// Parts lists the runtimes.
func (runtimes) Parts() []stack.Part {
	return []stack.Part{{Value: Runtime{}, Description: Runtime{}.Describe()}}
}

// named checks the name of a cluster.
func named(text string) (string, error) {
	if !names.MatchString(text) {
		return "", fmt.Errorf("invalid name of a cluster %q (valid: a name that hosts has)", text)
	}
	return text, nil
}

var names = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)?$`)

// BuildTime returns how long pods take, as a guess: a kubelet makes some in a second.
func (runtimes) BuildTime(_ stack.Stack, _, containers int) time.Duration {
	return time.Second + time.Duration(containers)*100*time.Millisecond
}

// Runtime is the runtime of a cluster.
type Runtime struct{}

var _ runtime.Equipped = Runtime{}

// Describe returns the description of the runtime.
func (Runtime) Describe() runtime.Description {
	return runtime.Description{
		Name: name, Summary: "each container is a pod of the cluster", Implementation: "kernel",
		Params: part.List{{
			Name: stack.Cluster, Check: named, Quiet: true,
			Summary: "the cluster on which the pods are, by its name in hosts, if an experiment has several",
		}},
	}
}

// Containers is not possible: the cluster makes pods, and not a host of this machine.
func (Runtime) Containers([]runtime.Container, part.Params) ([]host.Step, error) {
	return nil, errors.New("pods are made by a cluster (hosts: {kind: kubernetes})")
}

// Populated says that a worker runs in each pod.
func (Runtime) Populated(part.Params) bool { return true }

// Equipped says that the image of a pod may have programs besides nettoll.
func (Runtime) Equipped() {}
