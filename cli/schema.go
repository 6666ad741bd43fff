package cli

import (
	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/experiment"
)

func schemaCommand(std Streams, lib library) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of experiment files, for editors",
		Long: `Prints the JSON Schema of experiment files: every key, every part and its parameters, with their meaning. An
editor that knows the schema completes and checks as you write. With yaml-language-server (VS Code, Neovim, Helix, …)
the first line of an experiment names the schema file:

  # yaml-language-server: $schema=nettoll.schema.json`,
		Example: `  nettoll schema > nettoll.schema.json`,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			text, err := experiment.Schema(lib.catalogue.Parts())
			if err != nil {
				return err
			}
			_, err = std.Out.Write(text)
			return err
		},
	}
}
