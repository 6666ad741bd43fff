package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/measure"
)

// build is the program as it was built.
type build struct{ version string }

// versionText is the version that was linked in, or what the Go toolchain knows.
func (b build) versionText() string {
	if b.version != "" {
		return b.version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// versionLine is what `version` prints.
func (b build) versionLine() string {
	return fmt.Sprintf("nettoll %s %s/%s %s\n", b.versionText(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// versionInfo is what `version --json` prints. Keys are added, and never renamed.
type versionInfo struct {
	Version string `json:"version"` // as tagged, with the commits since and whether the tree was changed
	Records int    `json:"records"` // version of the records that run writes; see measure.Version
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Go      string `json:"go"`
}

func versionCommand(std Streams, of build) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version of nettoll, the system and the architecture it was built for, and the Go that compiled it.

With --json it prints one object: version, records (the version of the records that run writes and report reads), os,
arch, go.`,
		Example: `  nettoll version
  nettoll version --json | jq -r .version`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(std.Out).Encode(versionInfo{
					of.versionText(), measure.Version, runtime.GOOS, runtime.GOARCH, runtime.Version(),
				})
			}
			_, err := fmt.Fprint(std.Out, of.versionLine())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
