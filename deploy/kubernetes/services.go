package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

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

// serviceOf returns the service of the sink of a pair: an address of each family of the cluster, at all of its ports.
func (l *lab) serviceOf(pair int) object {
	sink := l.spec.Pairs[pair].Sink
	of := l.spec.Net.Hosts[sink.Host].Containers[sink.Container].Ports
	var ports []object
	for port := int(of.First); port <= int(of.Last); port++ {
		for _, protocol := range []string{"UDP", "TCP"} {
			ports = append(ports, object{
				"name": fmt.Sprintf("%s-%d", strings.ToLower(protocol), port), "port": port, "protocol": protocol,
			})
		}
	}
	return object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{
			"name": l.serviceName(pair), "ownerReferences": []object{l.deployment.owner},
			"labels": object{managedBy: manager, runLabel: l.deployment.run, labLabel: l.name},
		},
		"spec": object{
			"ipFamilyPolicy": "PreferDualStack", "selector": l.selector(sink)["matchLabels"], "ports": ports,
		},
	}
}

// serviceName returns the name of the service of the sink of a pair. It begins with a letter, as names of services do.
func (l *lab) serviceName(pair int) string { return fmt.Sprintf("%s-%d", l.name, pair) }

// serve makes the services of a lab and notes their addresses, at which the sources know the sinks.
func (l *lab) serve(ctx context.Context) error {
	if !l.served() {
		return nil
	}
	for i, p := range l.spec.Pairs {
		var made service
		if err := l.deployment.client.Create(ctx, l.deployment.path(core, "services"), l.serviceOf(i), &made); err != nil {
			return fmt.Errorf("make a service: %w", err)
		}
		e := &l.site.Endpoints[p.Sink.Host][p.Sink.Container]
		for _, text := range made.Spec.IPs {
			a, err := netip.ParseAddr(text)
			switch {
			case err != nil:
				return fmt.Errorf("service %q: %w", l.serviceName(i), err)
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

// unserve removes the services.
func (l *lab) unserve() error {
	if !l.served() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also if the run was interrupted
	defer cancel()
	var errs []error
	for i := range l.spec.Pairs {
		err := l.deployment.client.Delete(ctx, l.deployment.path(core, "services")+"/"+url.PathEscape(l.serviceName(i)), nil)
		if err != nil && !absent(err) {
			errs = append(errs, fmt.Errorf("remove service %q: %w", l.serviceName(i), err))
		}
	}
	return errors.Join(errs...)
}
