package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/experiment"
)

func (l labs) graphCommand() *cobra.Command {
	var name, format, output string
	var briefly bool
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Show what a lab looks like: hosts, links, addresses, routes, rules",
		Long: `Reads from the kernel what a lab consists of: hosts, containers, links and their other ends, addresses,
routes, and the rules of packet filters as nft, iptables-save, ipset and bpftool list them (if installed). For each
host it shows whether the kernel still agrees with the plan that the host was built from, and lists the differences.`,
		Example: `  nettoll lab graph
  nettoll lab graph --format svg -o lab.svg     a picture
  nettoll lab graph --format json | jq '.hosts[].drift'`,
		Args: noLabArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(graphFormats(), format) {
				return usageError{fmt.Errorf("--format: %w", &experiment.UnknownError{
					Kind: "format", Name: format, Known: graphFormats(),
				})}
			}
			of, err := l.of(name)
			if err != nil {
				return err
			}
			g, err := of.Graph(cmd.Context())
			if err != nil {
				return err
			}
			return l.to(output, func(w io.Writer) error {
				switch format {
				case "json":
					e := json.NewEncoder(w)
					e.SetIndent("", "  ")
					return e.Encode(g)
				case "svg":
					return g.SVG(w)
				}
				g.Text(w, briefly)
				return nil
			})
		},
	}
	l.flag(cmd, &name)
	cmd.Flags().StringVar(&format, "format", "text", "one of "+strings.Join(graphFormats(), ", "))
	cmd.Flags().BoolVar(&briefly, "brief", false, "as text, without routes, rules and link-layer addresses")
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write to (default: standard output)")
	return cmd
}

func graphFormats() []string { return []string{"text", "svg", "json"} }
