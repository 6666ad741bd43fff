package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
)

// How pods get a second interface: "Kubernetes Network Custom Resource Definition De-facto Standard", version 1.3, of
// the Network Plumbing Working Group, which Multus implements.
const (
	attachGroup = "k8s.cni.cncf.io"
	definitions = "network-attachment-definitions"
	// askAnnotation names the definitions that a pod asks for, and statusAnnotation has what it got.
	askAnnotation    = "k8s.v1.cni.cncf.io/networks"
	statusAnnotation = "k8s.v1.cni.cncf.io/network-status"
)

// attachedTo names the definition by which the pods of a stack get a second interface; "" if they get none.
func attachedTo(s stack.Stack) string {
	a, params, ok := stack.PartOf[network.Attacher](s)
	if !ok {
		return ""
	}
	return a.Attached(params)
}

// A definition is what the API tells of a NetworkAttachmentDefinition.
type definition struct {
	Spec struct {
		Config string `json:"config"` // a configuration of CNI; "": each node has a file with it
	} `json:"spec"`
}

// plugins names those of its configuration, and what gives addresses: "bridge+tuning with host-local".
func (d definition) plugins() string {
	type plugin struct {
		Type string `json:"type"`
		IPAM struct {
			Type string `json:"type"`
		} `json:"ipam"`
	}
	var config struct {
		plugin

		Plugins []plugin `json:"plugins"`
	}
	if d.Spec.Config == "" {
		return "in a file of each node"
	}
	if err := json.Unmarshal([]byte(d.Spec.Config), &config); err != nil {
		return "not readable"
	}
	if config.Plugins == nil {
		config.Plugins = []plugin{config.plugin}
	}
	var types []string
	by := ""
	for _, p := range config.Plugins {
		types = append(types, p.Type)
		if p.IPAM.Type != "" {
			by = " with " + p.IPAM.Type
		}
	}
	return strings.Join(types, "+") + by
}

// A getter reads an object of the API, see [kubectl.Client.Get].
type getter func(ctx context.Context, path string, into any) error

// findDefinition returns what a definition is; "" if the user may not read it.
func findDefinition(ctx context.Context, get getter, name string) (said string, err error) {
	const version = "/apis/" + attachGroup + "/v1"
	what := fmt.Sprintf("give pods a second interface by %q", name)
	in, of := path.Dir(name), path.Base(name)
	var d definition
	err = get(ctx, version+"/namespaces/"+url.PathEscape(in)+"/"+definitions+"/"+url.PathEscape(of), &d)
	refused, ok := errors.AsType[*kubectl.StatusError](err)
	switch {
	case err == nil:
		return d.plugins(), nil
	case ok && refused.Code == http.StatusForbidden:
		return "", nil
	case !absent(err):
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if err := get(ctx, version, nil); absent(err) {
		return "", &linux.UnsupportedError{
			What: what, Missing: "kind NetworkAttachmentDefinition in the cluster",
			Hint: "install Multus, or leave out secondary",
		}
	}
	return "", &linux.UnsupportedError{
		What: what, Missing: fmt.Sprintf("NetworkAttachmentDefinition %q in namespace %q", of, in),
		Hint: "kubectl get " + definitions + " --all-namespaces lists them",
	}
}

// attachable returns nil, or why the pods of a stack cannot get their second interface, as far as that can be known
// before they are made.
func attachable(ctx context.Context, get getter, of stack.Stack) error {
	name := attachedTo(of)
	if name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := findDefinition(ctx, get, name)
	return err
}

// describeDefinitions lists those of the definitions that are there, each with what it is, if the user may read that.
func describeDefinitions(ctx context.Context, get getter, names []string) (list []string) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for _, name := range names {
		said, err := findDefinition(ctx, get, name)
		if err != nil {
			continue // so says who asks for it
		}
		if said != "" {
			name += ": " + said
		}
		list = append(list, name)
	}
	return list
}

// An attachment is a second interface that a pod has got.
type attachment struct {
	Name    string   `json:"name"` // of its definition: NAMESPACE/NAME
	IPs     []string `json:"ips"`
	Default bool     `json:"default"` // it is the interface that every pod has
}

// attachment returns what a pod, which runs, has got by a definition.
func (p *pod) attachment(name string) (attachment, error) {
	text := p.Metadata.Annotations[statusAnnotation]
	if text == "" {
		return attachment{}, fmt.Errorf("pod %q has no second interface: nothing has answered its annotation %s by %s "+
			"(hint: does Multus run on node %s, and is it the plugin that the node calls first?)", p.Metadata.Name,
			askAnnotation, statusAnnotation, p.Spec.Node)
	}
	var list []attachment
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return attachment{}, fmt.Errorf("pod %q: read its annotation %s: %w", p.Metadata.Name, statusAnnotation, err)
	}
	list = slices.DeleteFunc(list, func(a attachment) bool { // one of the pod's own namespace may be named without it
		return a.Name != name && a.Name != path.Base(name) || a.Default
	})
	i := slices.IndexFunc(list, func(a attachment) bool { return len(a.IPs) > 0 }) // a plugin may make others beside it
	switch {
	case len(list) == 0:
		return attachment{}, fmt.Errorf("pod %q has no interface by %q: its annotation %s has %s", p.Metadata.Name, name,
			statusAnnotation, strings.Join(strings.Fields(text), " "))
	case i < 0:
		return attachment{}, fmt.Errorf("pod %q has no address at its interface by %q (hint: the configuration of the "+
			"NetworkAttachmentDefinition needs an ipam)", p.Metadata.Name, name)
	}
	return list[i], nil
}

// endpoint is where a pod sends and receives: at its second interface, if it has one by a definition.
func (p *pod) endpoint(attach string) (e network.Endpoint, err error) {
	if attach == "" {
		e.IPv4, e.IPv6 = p.addresses()
		return e, nil
	}
	a, err := p.attachment(attach)
	if err != nil {
		return e, err
	}
	list := make([]ip, len(a.IPs))
	for i, text := range a.IPs {
		list[i].IP = text
	}
	e.IPv4, e.IPv6 = byFamily(list)
	return e, nil
}

// Trace counts what the interfaces of pods have sent and received, if they have a second one. Else it is not possible:
// the way of packets between pods is the cluster's.
func (l *lab) Trace(ctx context.Context, q []host.Question) ([]host.Trace, error) {
	if l.attach == "" {
		return nil, &linux.UnsupportedError{
			What: "ask which way packets take", Missing: "a right on the nodes of the cluster",
		}
	}
	traces := make([]host.Trace, len(q))
	var mu sync.Mutex
	var errs []error
	var group sync.WaitGroup
	for h := 1; h < len(q); h++ { // 0 is the underlay
		traces[h].Counts = map[string]map[string]uint64{}
		for i, c := range l.spec.Net.Hosts[h-1].Containers {
			if !slices.Contains(q[h].Links, c.Name) {
				continue
			}
			group.Go(func() {
				counts, err := l.count(ctx, l.pods[h-1][i].Metadata.Name, c.Name)
				mu.Lock()
				defer mu.Unlock()
				traces[h].Counts[c.Name] = counts
				errs = append(errs, err)
			})
		}
	}
	group.Wait()
	return traces, errors.Join(errs...)
}

// count asks the worker of a pod, which is a container of that name, what its interfaces have counted.
func (l *lab) count(ctx context.Context, pod, container string) (map[string]uint64, error) {
	l.mu.Lock()
	r := l.workers[pod]
	l.mu.Unlock()
	if r == nil {
		return nil, fmt.Errorf("pod %q has no worker that counts its packets", pod)
	}
	var devices []traffic.DeviceCount
	if err := r.Call(ctx, worker.Devices, nil, &devices); err != nil {
		return nil, err
	}
	counts := make(map[string]uint64, 2*len(devices))
	for _, d := range devices {
		counts[host.Received(container, d.Name, "").Name] = uint64(d.Received)
		counts[host.Sent(container, d.Name, "").Name] = uint64(d.Sent)
	}
	return counts, nil
}
