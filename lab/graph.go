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

// A Graph is what a lab looks like, as the kernel says it.
type Graph struct {
	Entry
	MTU   int    `json:"mtu"` // bytes
	Proof string `json:"proof"`
	// Enforced says where the filter stands and what it claims besides its allow-list; "" without a filter.
	Enforced string `json:"enforced,omitempty"`
	// Between are the layers between hosts, from the underlay up to the containers; none in a lab of one host.
	Between []control.Layer `json:"between,omitempty"`
	Hosts   []GraphHost     `json:"hosts"` // the underlay is the last
	Links   []GraphPair     `json:"links"` // between whom packets pass
}

// A GraphPair is a pair of containers, and at which addresses they know each other.
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
	// Rules are the steps of its plan that are neither links nor routes nor variables: packet filters, translations,
	// programs.
	Rules []string `json:"rules,omitempty"`
	// Drift is where the kernel does not agree with the plan; empty where all of it is verified.
	Drift      []string         `json:"drift,omitempty"`
	Own        Space            `json:"own"`
	Containers []GraphContainer `json:"containers,omitempty"`
}

// A GraphContainer is a container.
type GraphContainer struct {
	Name      string   `json:"name"`                // "src0"
	Addresses []string `json:"addresses,omitempty"` // that its sockets bind to
	// Shared says that it has no network namespace of its own but its host's.
	Shared bool  `json:"shared,omitempty"`
	Space  Space `json:"space"`
}

// A Space is what is in a network namespace.
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
	Lower     *End     `json:"lower,omitempty"`  // the link it stands on
	Addresses []string `json:"addresses,omitempty"`
}

// An End is a link somewhere in the lab.
type End struct {
	At   string `json:"at"` // "h1", "h1/src0", "underlay"; "" where it was not found
	Name string `json:"name,omitempty"`
}

func (e End) String() string {
	if e.At == "" {
		return "elsewhere"
	}
	return e.At + ":" + e.Name
}

// A Filter is what a program says of the rules that the kernel has.
type Filter struct {
	Program string   `json:"program"` // "nft list ruleset"
	Lines   []string `json:"lines"`
	More    int      `json:"more,omitempty"` // lines that are not listed
}

const (
	// maxLines is how many lines of rules are kept of a namespace and a program.
	maxLines = 200
	// maxFiltered is in how many containers rules are looked for.
	maxFiltered = 32
	// filterLimit is how long a program may take to list them.
	filterLimit = 10 * time.Second
)

// node is a network namespace on the way.
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
		if err != nil { // it may have ended: the others are to be seen all the same
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

// survey reads what is in the namespaces of a host.
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

// resolve says what the links and routes of a namespace are, with the names of what they refer to. All begins with
// where that most likely is.
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

// other looks for the link that a link belongs to.
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

// plain are the kinds of steps that the links and routes show already.
func plain() []string {
	return []string{
		host.Namespace{}.Kind(), host.Bridge{}.Kind(), host.Veth{}.Kind(), host.Macvlan{}.Kind(), host.IPVlan{}.Kind(),
		host.Link{}.Kind(), host.Route{}.Kind(), host.Multipath{}.Kind(),
		host.Sysctl{}.Kind(), host.Neighbour{}.Kind(), host.LinkSettings{}.Kind(), host.MoveLink{}.Kind(),
	}
}

// rules lists the steps of a plan that are rules, and returns which of the containers' namespaces they name.
func rules(p host.Plan, into *GraphHost) (filtered []string) {
	theirs := map[string]bool{}
	for _, c := range into.Containers {
		theirs[c.Name] = !c.Shared
	}
	for _, s := range p.Steps {
		if slices.Contains(plain(), s.Kind()) {
			continue
		}
		into.Rules = append(into.Rules, s.String())
		var fields any
		if data, err := json.Marshal(s); err == nil && json.Unmarshal(data, &fields) == nil {
			named(fields, theirs)
		}
	}
	for _, c := range into.Containers {
		if !theirs[c.Name] && !c.Shared { // it was named
			filtered = append(filtered, c.Name)
		}
	}
	return filtered
}

// named turns off those names that occur as texts in what was decoded from JSON.
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

// listings are the programs that say what rules the kernel has. None of them changes anything.
func listings() [][]string {
	return [][]string{
		{"nft", "list", "ruleset"},
		{"iptables-legacy-save"},
		{"ip6tables-legacy-save"},
		{"ipset", "save"},
		{"bpftool", "net", "show"},
	}
}

// filters asks those programs that are installed. Those that are not, or that this kernel has nothing for, are left
// out: the plan says what was loaded.
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
