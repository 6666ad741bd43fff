package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// A Graph describes a lab as the kernel reports it.
type Graph struct {
	Entry
	MTU   int    `json:"mtu"` // bytes
	Proof string `json:"proof"`
	// Enforced describes where the filter is and what it claims in addition to its allow-list; "" without a filter.
	Enforced string `json:"enforced,omitempty"`
	// Rights say what root may do in the containers; "" if those have no processes of their own.
	Rights string `json:"rights,omitempty"`
	// Between are the layers between hosts, from the underlay up to the containers; a lab of one host has none.
	Between []control.Layer `json:"between,omitempty"`
	Hosts   []GraphHost     `json:"hosts"` // the underlay is last
	Links   []GraphPair     `json:"links"` // pairs between which packets pass
}

// A GraphPair is a pair of containers, with the addresses by which they know each other.
type GraphPair struct {
	Source          string   `json:"source"` // "h1/src0"
	Sink            string   `json:"sink"`
	SourceAddresses []string `json:"source_addresses"`
	SinkAddresses   []string `json:"sink_addresses"`
}

// A GraphHost is a host, or the underlay.
type GraphHost struct {
	Name  string `json:"name"` // "h1"
	Steps int    `json:"steps"`
	// Rules are the steps of the host's plan that are not links, routes or sysctls: packet filters, translations,
	// programs.
	Rules []string `json:"rules,omitempty"`
	// Drift lists the differences between the kernel and the plan; it is empty if the whole plan is verified.
	Drift      []string         `json:"drift,omitempty"`
	Own        Space            `json:"own"`
	Containers []GraphContainer `json:"containers,omitempty"`
}

// A GraphContainer is a container.
type GraphContainer struct {
	Name      string   `json:"name"`                // "src0"
	Addresses []string `json:"addresses,omitempty"` // of its sockets
	// Shared is true if it uses the network namespace of its host.
	Shared bool  `json:"shared,omitempty"`
	Space  Space `json:"space"`
}

// A Space is the contents of a network namespace.
type Space struct {
	Links   []GraphLink `json:"links,omitempty"`
	Routes  []string    `json:"routes,omitempty"`
	Filters []Filter    `json:"filters,omitempty"`
}

// A GraphLink is a link.
type GraphLink struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Mode      string   `json:"mode,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	MTU       int      `json:"mtu"` // bytes
	Up        bool     `json:"up"`
	Running   bool     `json:"running"`          // it has a carrier
	Master    string   `json:"master,omitempty"` // the bridge that it is a port of
	Peer      *End     `json:"peer,omitempty"`   // the other end of a veth
	Lower     *End     `json:"lower,omitempty"`  // the link it is on top of
	Addresses []string `json:"addresses,omitempty"`
}

// An End is a link somewhere in the lab.
type End struct {
	At   string `json:"at"` // "h1", "h1/src0", "underlay"; "" if it was not found
	Name string `json:"name,omitempty"`
}

func (e End) String() string {
	if e.At == "" {
		return "elsewhere"
	}
	return e.At + ":" + e.Name
}

// A Filter is the output of a program about the rules in the kernel.
type Filter struct {
	Program string   `json:"program"` // "nft list ruleset"
	Lines   []string `json:"lines"`
	More    int      `json:"more,omitempty"` // lines that are not listed
}

const (
	// maxLines is the largest number of lines of rules per namespace and program.
	maxLines = 200
	// maxFiltered is the largest number of containers in which rules are looked for.
	maxFiltered = 32
	// filterLimit is how long a program may take to list the rules.
	filterLimit = 10 * time.Second
)

// node is a network namespace while the graph is built.
type node struct {
	name  string
	space *Space
	file  *os.File
	links *link.Handle
	link.Survey
}

// graph reads the whole lab.
func (o *owner) graph(ctx context.Context) (*Graph, error) {
	g := &Graph{
		Entry: o.entry, MTU: o.lab.MTU, Proof: o.lab.Claims(), Enforced: o.lab.Lab.Stack.Enforced(),
		Rights:  o.lab.Rights(),
		Between: o.lab.Between,
	}
	for _, p := range o.lab.Pairs {
		g.Links = append(g.Links, GraphPair{p.Source, p.Sink, texts(p.SourceAddrs), texts(p.SinkAddrs)})
	}
	var nodes [][]*node // by host: its own first
	defer func() {
		for _, n := range slices.Concat(nodes...) {
			n.close()
		}
	}()
	g.Hosts = make([]GraphHost, len(o.lab.Hosts))
	for i, h := range o.lab.Hosts {
		one := &g.Hosts[i]
		here, err := survey(h, one)
		nodes = append(nodes, here)
		one.Steps = len(h.Plan().Steps)
		if err != nil { // it may have ended: show the others all the same
			one.Drift = []string{err.Error()}
			continue
		}
		if err := h.Verify(ctx); err != nil {
			one.Drift = strings.Split(err.Error(), "\n")
		}
		filtered := rules(h.Plan(), one)
		o.filters(ctx, h, "", &one.Own)
		for j := range one.Containers {
			c := &one.Containers[j]
			if at := slices.Index(filtered, c.Name); at >= 0 && at < maxFiltered && !c.Shared {
				o.filters(ctx, h, h.Containers[j].Namespace, &c.Space)
			}
		}
	}
	for i, here := range nodes {
		for _, n := range here {
			n.resolve(append(slices.Clone(here), slices.Concat(slices.Delete(slices.Clone(nodes), i, i+1)...)...))
		}
	}
	return g, nil
}

func (n *node) close() {
	if n.links != nil {
		n.links.Close()
	}
	_ = n.file.Close()
}

func texts[T fmt.Stringer](list []T) []string {
	var all []string
	for _, x := range list {
		all = append(all, x.String())
	}
	return all
}

// survey reads the namespaces of a host.
func survey(h control.LiveHost, into *GraphHost) (nodes []*node, err error) {
	into.Name = hostName(h)
	into.Containers = make([]GraphContainer, len(h.Containers))
	open := func(namespace, name string, space *Space) error {
		f, err := h.Namespace(namespace)
		if err != nil {
			return err
		}
		n := &node{name: name, space: space, file: f}
		nodes = append(nodes, n)
		if err := netns.Do(int(f.Fd()), func() (err error) {
			n.links, err = link.Open()
			return err
		}); err != nil {
			return err
		}
		n.Survey, err = n.links.Survey()
		return err
	}
	if err := open("", into.Name, &into.Own); err != nil {
		return nodes, err
	}
	for i, c := range h.Containers {
		one := &into.Containers[i]
		one.Name, one.Addresses, one.Shared = c.Name, texts(c.Addresses), c.Namespace == ""
		if one.Shared {
			continue
		}
		if err := open(c.Namespace, into.Name+"/"+c.Name, &one.Space); err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// resolve sets the links and routes of a namespace, with the names of what they refer to. all begins with the most
// likely namespace.
func (n *node) resolve(all []*node) {
	names := map[int]string{}
	for _, l := range n.Survey.Links {
		names[l.Index] = l.Name
	}
	for _, l := range n.Survey.Links {
		one := GraphLink{
			Name: l.Name, Type: l.Type, Mode: l.Mode, MAC: l.MAC.String(), MTU: l.MTU, Up: l.Up, Running: l.Running,
			Master: names[l.Master], Addresses: texts(l.Addresses),
		}
		if l.Name == "lo" {
			one.MAC = ""
		}
		if l.Other != 0 && (l.There >= 0 || l.Other != l.Index) {
			other := n.other(l, all)
			if l.Type == "veth" {
				one.Peer = &other
			} else {
				one.Lower = &other
			}
		}
		n.space.Links = append(n.space.Links, one)
	}
	for _, r := range n.Survey.Routes {
		text := r.To.String()
		if r.To.Bits() == 0 {
			text = "default"
			if r.To.Addr().Is6() && !r.Via.IsValid() {
				text = "default (IPv6)"
			}
		}
		if r.Via.IsValid() {
			text += " via " + r.Via.String()
		}
		if name := names[r.Link]; name != "" {
			text += " dev " + name
		}
		if r.Table != 0 {
			text += fmt.Sprintf(" table %d", r.Table)
		}
		n.space.Routes = append(n.space.Routes, text)
	}
}

// other finds the other end of a link.
func (n *node) other(l link.Surveyed, all []*node) End {
	for _, m := range all {
		i := slices.IndexFunc(m.Survey.Links, func(o link.Surveyed) bool {
			return o.Index == l.Other && (l.Type != "veth" || o.Other == l.Index)
		})
		if i < 0 || (l.There < 0) != (m == n) {
			continue
		}
		if l.There >= 0 {
			if id, err := n.links.ID(m.file); err != nil || id != l.There {
				continue
			}
		}
		return End{m.name, m.Survey.Links[i].Name}
	}
	return End{}
}

// plain returns the kinds of steps that the links and routes already show.
func plain() []string {
	return []string{
		host.Namespace{}.Kind(), host.Bridge{}.Kind(), host.Veth{}.Kind(),
		host.Link{}.Kind(), host.Route{}.Kind(), host.Multipath{}.Kind(),
		host.Sysctl{}.Kind(), host.Neighbour{}.Kind(), host.LinkSettings{}.Kind(), host.MoveLink{}.Kind(),
	}
}

// rules lists the steps of a plan that are rules, and returns the namespaces of containers that they name.
func rules(p host.Plan, into *GraphHost) (filtered []string) {
	theirs := map[string]bool{}
	for _, c := range into.Containers {
		theirs[c.Name] = !c.Shared
	}
	for _, s := range p.Steps {
		if _, link := s.(interface{ Base() host.Upper }); link || slices.Contains(plain(), s.Kind()) {
			continue
		}
		into.Rules = append(into.Rules, s.String())
		var fields any
		if data, err := json.Marshal(s); err == nil && json.Unmarshal(data, &fields) == nil {
			named(fields, theirs)
		}
	}
	for _, c := range into.Containers {
		if !theirs[c.Name] && !c.Shared { // the rules name it
			filtered = append(filtered, c.Name)
		}
	}
	return filtered
}

// named clears the names that occur as strings in decoded JSON.
func named(value any, names map[string]bool) {
	switch v := value.(type) {
	case string:
		if names[v] {
			names[v] = false
		}
	case []any:
		for _, x := range v {
			named(x, names)
		}
	case map[string]any:
		for _, x := range v {
			named(x, names)
		}
	}
}

// listings returns the programs that list the rules of the kernel. None of them changes anything.
func listings() [][]string {
	return [][]string{
		{"nft", "list", "ruleset"},
		{"iptables-legacy-save"},
		{"ip6tables-legacy-save"},
		{"ipset", "save"},
		{"bpftool", "net", "show"},
	}
}

// filters runs the listing programs that are installed. A program that is missing, or for which this kernel has
// nothing, is left out: the plan shows what was loaded.
func (o *owner) filters(ctx context.Context, h control.LiveHost, namespace string, into *Space) {
	for _, args := range listings() {
		asked, cancel := context.WithTimeout(ctx, filterLimit)
		out, err := h.Exec(asked, host.Command{Namespace: namespace, Args: args})
		cancel()
		if errors.Is(err, errors.ErrUnsupported) || err == nil && out.Exit != 0 {
			continue
		}
		f := Filter{Program: strings.Join(args, " ")}
		if err != nil {
			f.Lines = []string{err.Error()}
		}
		for line := range strings.Lines(string(out.Stdout)) {
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"), args[0] == "bpftool" &&
				strings.HasSuffix(line, ":"):
			case len(f.Lines) < maxLines:
				f.Lines = append(f.Lines, line)
			default:
				f.More++
			}
		}
		if len(f.Lines) > 0 {
			into.Filters = append(into.Filters, f)
		}
	}
}
