package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/mount"
	"github.com/nettoll/nettoll/runtime"
)

// The programs of Podman, each of the Debian package of its name.
const (
	client   = "podman"
	monitor  = "conmon"
	netavark = "netavark"
)

// least is the oldest Podman that has netavark, and its keys in containers.conf(5) (podman-network(1); notes of release
// 4.0.0 at github.com/containers/podman/releases).
const least = "4.0"

// A Store is what Podman keeps on a host: its settings, and the image of all containers.
type Store struct {
	// Networks has it keep networks, which netavark makes.
	Networks bool `json:"networks,omitempty"`
}

// Kind returns "podman-store".
func (Store) Kind() string { return "podman-store" }

// String describes the step in plain words.
func (s Store) String() string {
	text := "store of Podman, with an image that holds nothing"
	if s.Networks {
		text += ", and networks by netavark"
	}
	return text
}

// Groups makes Store a [host.Grouping].
func (Store) Groups() {}

// dir is the directory of everything that Podman keeps, below that of a host's programs.
const dir = "podman"

// stored is what a Store keeps: directories that are covered by overlays.
type stored struct {
	Covered []string `json:"covered,omitempty"`
}

// settings are those of each Store: root without CAP_SYS_RESOURCE cannot raise the limits of processes, which Podman
// does by default.
const settings = `[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
`

// networks is where Podman notes networks, below dir.
const networks = "networks"

// settings is containers.conf(5).
func (s Store) settings(at string) string {
	all := settings + programs()
	if !s.Networks {
		return all
	}
	return all + fmt.Sprintf("[network]\nnetwork_backend = %q\nnetwork_config_dir = %q\n", netavark,
		filepath.Join(at, networks))
}

// programs are the settings of the programs that Podman starts: those in the PATH, which [Runtime.Check] has looked at.
// By default Podman takes the first one in a list of directories, whatever the PATH is.
func programs() string {
	var b strings.Builder
	if path, err := exec.LookPath(monitor); err == nil {
		fmt.Fprintf(&b, "conmon_path = [%q]\n", path)
	}
	b.WriteString("[engine.runtimes]\n")
	for _, name := range []string{runtime.RunC, runtime.CRun} {
		if path, err := exec.LookPath(name); err == nil { // the container needs one of them
			fmt.Fprintf(&b, "%s = [%q]\n", name, path)
		}
	}
	return b.String()
}

// storage is containers-storage.conf(5).
func storage(at string) string {
	return fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(at, "root"),
		filepath.Join(at, "run"))
}

// command is a command of Podman on a host.
func command(ctx context.Context, k *host.Kernel, args ...string) (*exec.Cmd, error) {
	at, err := k.RunDir(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, client, append([]string{"--tmpdir", filepath.Join(at, "tmp")}, args...)...)
	// With a CONTAINER_HOST, also an empty one, Podman is the client of another host.
	environ := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CONTAINER_HOST=") || strings.HasPrefix(v, "XDG_RUNTIME_DIR=")
	})
	cmd.Env = append(environ, "CONTAINERS_CONF="+filepath.Join(at, "containers.conf"),
		"CONTAINERS_STORAGE_CONF="+filepath.Join(at, "storage.conf"), "HOME="+at, runtime.Temporary(at))
	return cmd, nil
}

// Apply makes the store.
func (s Store) Apply(ctx context.Context, k *host.Kernel) (err error) {
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	var was stored
	if err := k.Keep(was); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Remove(context.WithoutCancel(ctx), k))
		}
	}()
	for file, text := range map[string]string{"containers.conf": s.settings(at), "storage.conf": storage(at)} {
		if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, d := range []string{"/etc", "/var"} { // in which Podman writes, whatever its settings are
		if err := mount.Cover(d, filepath.Join(at, "cover", d), filepath.Join(at, "work", d)); err != nil {
			return err
		}
		was.Covered = append(was.Covered, d)
		if err := k.Keep(was); err != nil {
			return errors.Join(err, mount.Uncover(d))
		}
	}
	load, err := command(ctx, k, "load", "--quiet")
	if err != nil {
		return err
	}
	var image bytes.Buffer
	if err := runtime.WriteImage(&image, runtime.Image, nil); err != nil {
		return err
	}
	load.Stdin = &image
	return runtime.Run(load)
}

// Remove removes the store.
func (Store) Remove(_ context.Context, k *host.Kernel) error {
	var was stored
	if kept, err := k.Kept(&was); err != nil || !kept {
		return err
	}
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	if _, err := os.Stat(filepath.Join(at, "storage.conf")); err == nil { // else it was removed
		for _, d := range slices.Backward(was.Covered) {
			errs = append(errs, mount.Uncover(d))
		}
	}
	return errors.Join(append(errs, mount.Remove(at))...)
}

// Verify wants the store to be there.
func (s Store) Verify(k *host.Kernel) error {
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(at, "storage.conf")); err == nil {
		return nil
	}
	drift := &host.DriftError{Step: s.String()}
	drift.Add(at, "present", "absent")
	return drift
}
