package cli

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nettoll/nettoll/byhand"
	"github.com/nettoll/nettoll/internal/image"
)

// module is what every nettoll says that it was built from.
const module = "github.com/nettoll/nettoll"

// imageCommand makes `image`, for daemons and clusters that cannot pull from a registry.
func imageCommand(std Streams, of build) *cobra.Command {
	var file, name, program string
	var with []string
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Write a container image of this program, without a registry",
		Long: `Writes an archive with an image that holds this program alone. Docker, Podman and containerd load it: it is an
OCI image layout, and an archive as docker save writes it. The same program gives the same bytes.

A container of the image runs nettoll sink, or the command that it is given.

Workloads with a driver start a program of another tool in the container, such as iperf3. --with puts programs of this
machine into the image, with the shared libraries that they need.`,
		Example: `  nettoll image | docker load
  nettoll image -o nettoll.tar                         for the nodes of a cluster, as root on each:
  ctr -n k8s.io images import nettoll.tar
  kind load image-archive nettoll.tar                  or for those of kind
  nettoll image --name registry.example.org/nettoll:v1 | docker load
  nettoll image --with iperf3,netperf,netserver -o more.tar     for driver: [nettoll, iperf3, netperf] on a cluster
  nettoll image --program nettoll-arm64 -o arm.tar     for machines of another architecture`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			named, err := image.ParseName(name)
			if err != nil {
				return usageError{err}
			}
			if out, is := std.Out.(*os.File); is && file == "" && term.IsTerminal(int(out.Fd())) {
				return usageError{errors.New("the archive is not text, and standard output is a terminal (-o FILE writes it to a " +
					"file; nettoll image | docker load loads it)")}
			}
			i, err := imageOf(cmd.Context(), program, with, of)
			if err != nil {
				return fmt.Errorf("make an image: %w", err)
			}
			i.Name = named
			if file == "" || file == "-" {
				return i.Write(std.Out)
			}
			if err := std.to(file, i.Write); err != nil {
				return fmt.Errorf("write an image: %w", err)
			}
			_, err = fmt.Fprintf(std.Out, "wrote %s: image %s for linux/%s; docker load -i %[1]s loads it, or podman load -i "+
				"%[1]s, ctr -n k8s.io images import %[1]s, kind load image-archive %[1]s\n", file, named, i.Arch)
			return err
		},
	}
	registerTo(cmd, &file, "file to write to, - for standard output (the default)")
	cmd.Flags().StringVar(&name, "name", "nettoll:latest", "name and tag of the image, PATH[:TAG]")
	cmd.Flags().StringVar(&program, "program", "", "the nettoll to put into it, such as one for another architecture "+
		"(default: this program)")
	cmd.Flags().StringSliceVar(&with, "with", nil, "other `PROGRAMS` of this machine to put into it, separated "+
		"by commas")
	return cmd
}

// imageOf returns the image of a nettoll and other programs, which has no name yet. Without others it is like that of
// packaging/Containerfile.
func imageOf(ctx context.Context, program string, with []string, of build) (image.Image, error) {
	var none image.Image
	this := program == ""
	if this {
		var err error
		if program, err = os.Executable(); err != nil {
			return none, err
		}
	}
	info, err := buildinfo.ReadFile(program)
	if unreadable, is := errors.AsType[*fs.PathError](err); is {
		return none, unreadable
	}
	if err != nil || info.Main.Path != module {
		return none, fmt.Errorf("%s is no nettoll (--program takes one: GOARCH=arm64 CGO_ENABLED=0 go build ./cmd/nettoll "+
			"makes it)", program)
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if set["GOOS"] != "linux" {
		return none, fmt.Errorf("%s is a program for %s, and containers need one for Linux (hint: --program takes one: "+
			"GOOS=linux CGO_ENABLED=0 go build ./cmd/nettoll makes it)", program, set["GOOS"])
	}
	switch loader, err := image.Loader(program); {
	case err != nil:
		return none, err
	case loader != "":
		return none, fmt.Errorf("%s needs shared libraries (%s), and the image has no file but the program (hint: build it "+
			"with make build, which sets CGO_ENABLED=0)", program, loader)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return none, err
	}
	from := originOf(info, program)
	if this {
		from.version = of.versionText()
	}
	labels := map[string]string{
		"org.opencontainers.image.title": "nettoll", "org.opencontainers.image.version": from.version,
	}
	if from.commit != "" {
		labels["org.opencontainers.image.revision"] = from.commit
	}
	created, _ := time.Parse(time.RFC3339, set["vcs.time"]) // the zero value if it is unknown
	everybody := fs.ModeDir | fs.ModeSticky | 0o777
	more, env, err := additions(ctx, with, program)
	if err != nil {
		return none, err
	}
	return image.Image{
		Arch: set["GOARCH"], Created: created,
		Config: image.Config{
			Env:        env,
			Entrypoint: []string{"/nettoll"}, Cmd: []string{"sink"}, WorkingDir: "/work",
			ExposedPorts: map[string]struct{}{fmt.Sprintf("%d/tcp", byhand.Port): {}}, Labels: labels,
		},
		Files: append([]image.File{
			{Path: "nettoll", Mode: 0o755, Data: data}, {Path: "tmp", Mode: everybody}, {Path: "work", Mode: everybody},
		}, more...),
	}, nil
}

// additions returns the files of other programs of an image that nettoll is in, and the environment that they need:
// where they are, and a directory for their files if the root is read-only, as in pods.
func additions(ctx context.Context, names []string, nettoll string) (files []image.File, env []string, err error) {
	var dirs []string
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, nil, fmt.Errorf("--with: %w", err)
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, nil, err
		}
		whole, err := image.Whole(ctx, path, nettoll)
		if err != nil {
			return nil, nil, fmt.Errorf("--with: %w", err)
		}
		for _, f := range whole {
			if !slices.ContainsFunc(files, func(has image.File) bool { return has.Path == f.Path }) {
				files = append(files, f)
			}
		}
		if dir := filepath.Dir(path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(files) > 0 {
		env = []string{"PATH=" + strings.Join(dirs, ":"), "TMPDIR=/dev/shm"}
	}
	return files, env, nil
}
