package cli

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/lab"
)

func (l labs) graphCommand() *cobra.Command {
	var name string
	var briefly bool
	out := outputFlags{formats: graphFormats(), to: "file to write to (default: standard output)"}
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Show what a lab looks like: hosts, links, addresses, routes, rules",
		Long: `Reads from the kernel what a lab consists of: hosts, containers, links and their other ends, addresses,
routes, and the rules of packet filters as nft, iptables-save, ipset and bpftool list them (if installed). For each
host it shows whether the kernel still agrees with the plan that the host was built from, and lists the differences.`,
		Example: `  nettoll lab graph
  nettoll lab graph --output svg -o lab.svg     a picture
  nettoll lab graph --output json | jq '.hosts[].drift'`,
		Args: noLabArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := out.choose(cmd)
			if err != nil {
				return err
			}
			out.note(cmd)
			of, err := l.of(name)
			if err != nil {
				return err
			}
			g, err := of.Graph(cmd.Context())
			if err != nil {
				return err
			}
			return l.to(out.file, func(w io.Writer) error { return writeGraph(w, g, format, briefly) })
		},
	}
	l.flag(cmd, &name)
	cmd.Flags().BoolVar(&briefly, "brief", false, "as text, without routes, rules and link-layer addresses")
	out.register(cmd)
	return cmd
}

func graphFormats() []string { return append(dataFormats(), "svg") }

// writeGraph writes a graph in one of [graphFormats].
func writeGraph(w io.Writer, g *lab.Graph, format string, briefly bool) error {
	switch format {
	case "json":
		return writeJSON(w, g)
	case "jsonl", "csv":
		return graphSheet(g).write(w, format)
	case "svg":
		return g.SVG(w)
	}
	g.Text(w, briefly)
	return nil
}

// graphSheet has a line for each host and pair, after one with the rest, and a row for each link.
func graphSheet(g *lab.Graph) sheet {
	s := sheet{columns: []string{
		"at", "link", "type", "mode", "mac", "mtu", "up", "running", "master", "peer_at", "peer", "lower_at", "lower",
		"addresses",
	}}
	whole := *g
	whole.Hosts, whole.Links = nil, nil
	s.objects = append(s.objects, line{"lab", struct {
		lab.Graph
		Hosts int `json:"hosts"` // number of hosts, the underlay among them
		Links int `json:"links"` // number of pairs
	}{whole, len(g.Hosts), len(g.Links)}})
	rows := func(at string, links []lab.GraphLink) {
		for _, l := range links {
			row := []string{
				at, l.Name, l.Type, l.Mode, l.MAC, strconv.Itoa(l.MTU), strconv.FormatBool(l.Up),
				strconv.FormatBool(l.Running), l.Master,
			}
			for _, end := range []*lab.End{l.Peer, l.Lower} {
				if end == nil {
					end = &lab.End{}
				}
				row = append(row, end.At, end.Name)
			}
			s.rows = append(s.rows, append(row, strings.Join(l.Addresses, " ")))
		}
	}
	for _, h := range g.Hosts {
		s.objects = append(s.objects, line{"node", h})
		rows(h.Name, h.Own.Links)
		for _, c := range h.Containers {
			if !c.Shared {
				rows(h.Name+"/"+c.Name, c.Space.Links)
			}
		}
	}
	for _, p := range g.Links {
		s.objects = append(s.objects, line{"pair", p})
	}
	return s
}
