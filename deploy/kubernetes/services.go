package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
)

// A service is what the API tells of a service.
type service struct {
	Spec struct {
		IPs []string `json:"clusterIPs"`
	} `json:"spec"`
}

// served says whether sources of the lab reach their sinks by services.
func (l *lab) served() bool {
	p, params, ok := stack.PartOf[network.Publisher](l.spec.Stack)
	return ok && p.Publishes(params)
}

// servedAtNodes says whether these services have ports of nodes.
func (l *lab) servedAtNodes() bool {
	_, ok := l.gate(network.Pair{})
	return ok
}

// gate returns the node to which the source of a pair sends; ok is false if it sends to none.
func (l *lab) gate(pair network.Pair) (n *node, ok bool) {
	p, params, ok := stack.PartOf[network.HostPublisher](l.spec.Stack)
	if !ok {
		return nil, false
	}
	h, ok := p.PublishedAt(pair, params)
	return &l.deployment.nodes[h], ok
}

// serviceOf returns the service of the sink of a pair: an address of each family of the cluster, at all of its ports.
// If sources reach it at nodes, these have the same ports, and may not put their own address in the place of the
// source's (https://kubernetes.io/docs/tutorials/services/source-ip/#source-ip-for-services-with-type-nodeport). What
// pods send to nodes is then passed on to any node (category "pod traffic" of pkg/proxy/iptables/proxier.go,
// k8s.io/kubernetes).
func (l *lab) serviceOf(pair int) object {
	sink := l.spec.Pairs[pair].Sink
	spec := object{"ipFamilyPolicy": "PreferDualStack", "selector": l.selector(sink)["matchLabels"]}
	if l.servedAtNodes() {
		spec["type"], spec["externalTrafficPolicy"] = "NodePort", "Local"
	}
	of := *l.portsOf(sink)
	var ports []object
	for port := int(of.First); port <= int(of.Last); port++ {
		for _, protocol := range []string{"UDP", "TCP"} {
			p := object{"name": fmt.Sprintf("%s-%d", strings.ToLower(protocol), port), "port": port, "protocol": protocol}
			if l.servedAtNodes() {
				p["nodePort"] = port
			}
			ports = append(ports, p)
		}
	}
	spec["ports"] = ports
	return object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{
			"name": l.serviceName(pair), "ownerReferences": []object{l.deployment.owner},
			"labels": object{managedBy: manager, runLabel: l.deployment.run, labLabel: l.name},
		},
		"spec": spec,
	}
}

// serviceName returns the name of the service of the sink of a pair. It begins with a letter, as names of services do.
func (l *lab) serviceName(pair int) string { return fmt.Sprintf("%s-%d", l.name, pair) }

// portsOf are the ports of a container.
func (l *lab) portsOf(s network.Spot) *network.Ports {
	return &l.spec.Net.Hosts[s.Host].Containers[s.Container].Ports
}

// serve makes the services of a lab. Sinks that are reached at nodes then have the ports that the cluster gives them.
func (l *lab) serve(ctx context.Context) error {
	if !l.served() {
		return nil
	}
	l.services = make([]service, len(l.spec.Pairs))
	if l.servedAtNodes() { // the hosts are those of control, too
		l.spec.Net.Hosts = slices.Clone(l.spec.Net.Hosts)
		for i := range l.spec.Net.Hosts {
			h := &l.spec.Net.Hosts[i]
			h.Containers = slices.Clone(h.Containers)
		}
		l.site.Lab = l.spec.Net
	}
	return l.deployment.each(ctx, len(l.spec.Pairs), "services are made", func(ctx context.Context, i int) error {
		p := l.spec.Pairs[i]
		create := func() error {
			return l.deployment.client.Create(ctx, l.deployment.path(core, "services"), l.serviceOf(i), &l.services[i])
		}
		var err error
		if l.servedAtNodes() {
			ports, some := l.portsOf(p.Sink), rand.New(rand.NewPCG(l.spec.Net.Seed, uint64(i)))
			err = tryPorts(int(ports.Last-ports.First)+1, some, func(first, last uint16) (taken uint16, err error) {
				*ports = network.Ports{First: first, Last: last}
				err = create()
				return takenPort(err), err
			})
		} else {
			err = create()
		}
		if err != nil {
			return fmt.Errorf("make a service: %w", err)
		}
		return nil
	})
}

// Ports of nodes, unless the API server was started with other ones (--service-node-port-range of kube-apiserver).
const (
	firstNodePort = 30000
	lastNodePort  = 32767
)

// tryPorts calls try with n consecutive ports of nodes, a random block of them first, until one is not refused because
// a port of it is taken. A refusal names that port, and the next block begins behind it.
func tryPorts(n int, some *rand.Rand, try func(first, last uint16) (taken uint16, err error)) error {
	blocks := lastNodePort - firstNodePort + 2 - n
	if blocks < 1 {
		return fmt.Errorf("a sink with %d ports, but nodes have only %d (hint: measure fewer workloads at once)", n,
			lastNodePort-firstNodePort+1)
	}
	for at, left := some.IntN(blocks), blocks; ; {
		first := firstNodePort + at
		taken, err := try(uint16(first), uint16(first+n-1))
		if err == nil || int(taken) < first || int(taken) >= first+n {
			return err
		}
		skip := min(int(taken)-first+1, blocks-at)
		if left -= skip; left <= 0 {
			return fmt.Errorf("no %d consecutive ports of nodes are free: %w (hint: measure fewer pairs or workloads at once)",
				n, err)
		}
		at = (at + skip) % blocks
	}
}

// allocated is how an API server refuses a port of nodes that another service has (ErrAllocated of
// pkg/registry/core/service/portallocator, initNodePorts of pkg/registry/core/service/storage, k8s.io/kubernetes).
var allocated = regexp.MustCompile(`nodePort: Invalid value: (\d+): provided port is already allocated`)

// takenPort returns the port of nodes because of which a service was refused; 0 if that is not why.
func takenPort(err error) uint16 {
	s, ok := errors.AsType[*kubectl.StatusError](err)
	if !ok {
		return 0
	}
	m := allocated.FindStringSubmatch(s.Message)
	if m == nil {
		return 0
	}
	port, _ := strconv.ParseUint(m[1], 10, 16) // 0 if it is none
	return uint16(port)
}

// publish notes the addresses at which the sources know the sinks.
func (l *lab) publish() error {
	for i, made := range l.services {
		s := l.spec.Pairs[i].Sink
		e := &l.site.Endpoints[s.Host][s.Container]
		for _, text := range made.Spec.IPs {
			a, err := netip.ParseAddr(text)
			switch at, ok := l.gate(l.spec.Pairs[i]); {
			case err != nil:
				return fmt.Errorf("service %q: %w", l.serviceName(i), err)
			case ok && a.Is4():
				e.PublicIPv4 = at.ipv4
			case ok:
				e.PublicIPv6 = at.ipv6
			case a.Is4():
				e.PublicIPv4 = a
			default:
				e.PublicIPv6 = a
			}
		}
		if e.IPv4.IsValid() && !e.PublicIPv4.IsValid() { // pods have it, and services of the cluster have not
			e.IPv4 = netip.Addr{}
		}
		if e.IPv6.IsValid() && !e.PublicIPv6.IsValid() {
			e.IPv6 = netip.Addr{}
		}
	}
	return nil
}

// targets are what the source of a pair has to be allowed to send to, as peers of a policy: the pod of its sink and, if
// it reaches that at a node, the addresses of the node. Whether a policy is asked before or after a service has changed
// the address is the plugin's choice
// (https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors).
func (l *lab) targets(pair network.Pair) []object {
	list := []object{{"podSelector": l.selector(pair.Sink)}}
	at, ok := l.gate(pair)
	if !ok {
		return list
	}
	for _, a := range []netip.Addr{at.ipv4, at.ipv6} {
		if a.IsValid() {
			list = append(list, object{"ipBlock": object{"cidr": netip.PrefixFrom(a, a.BitLen()).String()}})
		}
	}
	return list
}

// unserve removes the services.
func (l *lab) unserve() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also if the run was interrupted
	defer cancel()
	return l.removeAll(ctx, len(l.services), func(i int) (what, path string) {
		name := l.serviceName(i)
		return fmt.Sprintf("service %q", name), l.deployment.path(core, "services") + "/" + url.PathEscape(name)
	})
}
