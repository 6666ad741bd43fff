package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/measure"
)

// build is how the program was built.
type build struct{ version string }

// versionText returns the version that was linked in, or what [built] finds out.
func (b build) versionText() string {
	if b.version != "" {
		return b.version
	}
	return built().version
}

// origin describes the source that the program was built from.
type origin struct {
	version  string
	commit   string // "" if it is unknown
	modified bool   // the tree had changes that are not in the commit
}

// built finds out which source this program was built from.
func built() origin {
	info, _ := debug.ReadBuildInfo()
	file, err := os.Executable()
	if err != nil {
		file = ""
	}
	return originOf(info, file)
}

// noVersion is the version that the Go toolchain records if it knows none.
const noVersion = "(devel)"

// abbreviated is the length of an abbreviated commit, as in the Makefile.
const abbreviated = 12

// originOf reads the build information of a program, whose file is given. `go run` records no commit but runs in the
// clone, so originOf asks git there.
func originOf(info *debug.BuildInfo, file string) (o origin) {
	if info != nil {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				o.commit = s.Value
			case "vcs.modified":
				o.modified = s.Value == "true"
			}
		}
		if o.version = info.Main.Version; o.version == noVersion {
			o.version = ""
		}
	}
	if o.commit == "" && o.version == "" && byGoRun(file) {
		o.commit, o.modified, o.version = inClone()
	}
	if o.version == "" && o.commit != "" {
		o.version = o.commit[:min(abbreviated, len(o.commit))]
		if o.modified {
			o.version += "-dirty"
		}
	}
	if o.version == "" {
		o.version = "devel-" + fingerprint(file)
	}
	return o
}

// byGoRun reports whether a program was compiled by `go run`, which keeps programs in a temporary directory, or in the
// build cache.
func byGoRun(file string) bool {
	kept := regexp.MustCompile(`/go-build[^/]*/b[0-9]+/exe/[^/]+$|/[0-9a-f]{2}/[0-9a-f]{64}-d/[^/]+$`)
	return kept.MatchString(filepath.ToSlash(file))
}

// inClone asks git for the commit of the working directory, whether the tree was changed, and the version as `make
// build` has it. All are empty without git or outside a clone.
func inClone() (commit string, modified bool, version string) {
	const patience = 5 * time.Second // enough for a cold disk
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	if commit = git("rev-parse", "HEAD"); commit == "" {
		return "", false, ""
	}
	version = git("describe", "--tags", "--always", fmt.Sprintf("--abbrev=%d", abbreviated), "--dirty")
	return commit, strings.HasSuffix(version, "-dirty"), version
}

// fingerprint identifies a program without a version: the first digits of the SHA-256 of its file.
func fingerprint(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(sum.Sum(nil))[:abbreviated]
}

func (b build) versionLine() string {
	return fmt.Sprintf("nettoll %s %s/%s %s\n", b.versionText(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// versionInfo is what `version --output json` prints. Keys may be added, but not renamed.
type versionInfo struct {
	Version  string `json:"version"` // the tag, with the commits since and a mark if the tree was changed
	Records  int    `json:"records"` // version of the records that run writes: measure.Version
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Go       string `json:"go"`
	Commit   string `json:"commit,omitempty"` // absent if the Go toolchain did not record it
	Modified bool   `json:"modified,omitempty"`
}

func versionCommand(std Streams, of build) *cobra.Command {
	var f outputFlags
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version of nettoll, the system and the architecture it was built for, and the Go that compiled it.
The version is that of a release, or the commit that was built; -dirty or +dirty means that the source was changed.

With --output json it prints one object: version, records (the version of the records that run writes and report
reads), os, arch, go, and, if known, commit and modified. With --output csv these are columns.`,
		Example: `  nettoll version
  nettoll version --output json | jq -r .version`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := f.choose(cmd)
			if err != nil {
				return err
			}
			if format != "text" {
				o := built()
				i := versionInfo{
					of.versionText(), measure.Version, runtime.GOOS, runtime.GOARCH, runtime.Version(), o.commit, o.modified,
				}
				return sheet{
					columns: []string{"version", "records", "os", "arch", "go", "commit", "modified"},
					rows: [][]string{{
						i.Version, strconv.Itoa(i.Records), i.OS, i.Arch, i.Go, i.Commit, strconv.FormatBool(i.Modified),
					}},
					objects: []any{i}, // one line is both JSON and JSON lines
				}.write(std.Out, format)
			}
			_, err = fmt.Fprint(std.Out, of.versionLine())
			return err
		},
	}
	f.register(cmd)
	return cmd
}
