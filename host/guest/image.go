package guest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // init.sh
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

// An Image holds the files from which guests start.
type Image struct {
	// Release is the release of the kernel, as uname -r prints it in a guest.
	Release string
	// Kernel is the file of the kernel.
	Kernel string
	// Root is the file with the archive of the first file system: programs and modules.
	Root string
}

// init.sh is the first process of a guest.
//
//go:embed init.sh
var initScript string

// format changes when Prepare makes another image from the same packages.
const format = 2

// Usual is the default series of kernels.
const Usual = "6.12"

// Oldest is the oldest series with which nettoll is tested: that of Debian 12.
const Oldest = "6.1"

// Series lists the kernels for guests: builds for clouds in Debian 12, which also has one of 6.12.
func Series() []string { return []string{Usual, Oldest} }

// Prepare makes the image with the newest kernel of a series, or finds one that was made from the same packages. The
// image is in its own directory below dir, which Prepare makes if necessary. Say is called with a message about each
// step that takes seconds. If required programs are missing, the error is a [linux.UnsupportedError].
func Prepare(ctx context.Context, dir, series string, say func(string)) (Image, error) {
	if !slices.Contains(Series(), series) {
		return Image{}, fmt.Errorf("unknown kernel %q of a guest (known: %s)", series, strings.Join(Series(), ", "))
	}
	image, err := prepare(ctx, dir, series, say)
	if err != nil {
		return Image{}, fmt.Errorf("prepare the image of a guest: %w", err)
	}
	return image, nil
}

func prepare(ctx context.Context, dir, series string, say func(string)) (Image, error) {
	if err := needs("apt-cache", "apt-get", "dpkg-deb", "dpkg-query", "ldd", "xz", "depmod", "busybox"); err != nil {
		return Image{}, err
	}
	pkg, err := newest(ctx, series, say)
	if err != nil {
		return Image{}, err
	}
	installed, err := output(ctx, "dpkg-query", "-W", "-f", "${Package} ${Version}\n")
	if err != nil {
		return Image{}, err
	}
	key := sha256.Sum256(fmt.Appendf(installed, "%d %s %q %q %s", format, pkg, packages(), moduleFolders(), initScript))
	kernel := strings.TrimPrefix(pkg, "linux-image-")
	made := filepath.Join(dir, fmt.Sprintf("%s-%x", kernel, key[:6]))
	image := Image{Release: kernel, Kernel: filepath.Join(made, "vmlinuz"), Root: filepath.Join(made, "root.cpio")}
	if _, err := os.Stat(made); err == nil {
		return image, nil
	}
	release, err := alone(ctx, "@nettoll-guest-image", func() {
		say("another process is making the image: waiting until it ends")
	})
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = release() }()
	if _, err := os.Stat(made); err == nil {
		return image, nil // made by that other process
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Image{}, err
	}
	work, err := os.MkdirTemp(dir, ".making-")
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(work)
	if err := makeImage(ctx, pkg, kernel, work, say); err != nil {
		return Image{}, err
	}
	// Images of other packages are useless now: each takes about 100 MB.
	old, err := filepath.Glob(filepath.Join(dir, series+".*-cloud-amd64-*"))
	if err != nil {
		return Image{}, err
	}
	for _, name := range old {
		if err := os.RemoveAll(name); err != nil {
			return Image{}, err
		}
	}
	return image, os.Rename(filepath.Join(work, "image"), made)
}

// makeImage makes work/image.
func makeImage(ctx context.Context, pkg, release, work string, say func(string)) error {
	say("fetching " + pkg)
	if err := fetch(ctx, pkg, work, say); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) != 1 {
		return fmt.Errorf("apt-get download %s fetched %d packages instead of 1", pkg, len(debs))
	}
	say("unpacking its modules and packing them with the programs of a guest")
	tree := filepath.Join(work, "tree")
	if _, err := output(ctx, "dpkg-deb", "-x", debs[0], tree); err != nil {
		return err
	}
	var root Archive
	if err := addModules(ctx, &root, tree, release); err != nil {
		return err
	}
	if err := addPrograms(ctx, &root); err != nil {
		return err
	}
	furnish(&root)
	if err := os.Mkdir(filepath.Join(work, "image"), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tree, "boot", "vmlinuz-"+release),
		filepath.Join(work, "image", "vmlinuz")); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(work, "image", "root.cpio"))
	if err != nil {
		return err
	}
	return errors.Join(root.Write(f), f.Close())
}

// furnish adds files that belong to no package.
func furnish(root *Archive) {
	root.Data("init", 0o755, initScript)
	for _, dir := range []string{
		"proc", "sys", "dev", "run", "tmp", "root", "var/lib/openvswitch", "var/log/openvswitch", "etc/openvswitch",
	} {
		root.Dir(dir, 0o755)
	}
	root.Link("var/run", "/run")
	root.Link("var/tmp", "/tmp")
	root.Data("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
	root.Data("etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n")
	root.Data("etc/resolv.conf", 0o644, "") // there is no name server
	root.Data("etc/hosts", 0o644, "127.0.0.1 localhost guest\n::1 localhost\n")
	root.Data("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files\nprotocols: files\nservices: files\n")
}

// pinned matches kernels of a series: any build of Debian's for clouds, such as linux-image-6.12.117+deb12-cloud-amd64
// and linux-image-6.1.0-56-cloud-amd64.
func pinned(series string) *regexp.Regexp {
	return regexp.MustCompile(`^linux-image-(` + regexp.QuoteMeta(series) + `\.[0-9]+(?:-[0-9]+)?)\S*-cloud-amd64$`)
}

// newest returns the name of the kernel's package. If apt knows none, newest fetches its lists once.
func newest(ctx context.Context, series string, say func(string)) (string, error) {
	for try := range 2 {
		names, err := output(ctx, "apt-cache", "pkgnames", "linux-image-"+series)
		if err != nil {
			return "", err
		}
		if pkg := choose(string(names), series); pkg != "" {
			return pkg, nil
		}
		if try == 0 {
			if err := update(ctx, say); err != nil {
				return "", err
			}
		}
	}
	return "", &linux.UnsupportedError{
		What: "find the kernel of a guest", Missing: "package linux-image-" + series + ".*-cloud-amd64",
		Hint: "Debian 12 has it; apt-get update reads the lists anew",
	}
}

// choose returns the newest kernel of a series in a list of packages; "" if there is none.
func choose(names, series string) string {
	pattern := pinned(series)
	type kernel struct {
		name    string
		version []int
	}
	var found []kernel
	for name := range strings.FieldsSeq(names) {
		if m := pattern.FindStringSubmatch(name); m != nil && !strings.Contains(name, "unsigned") {
			k := kernel{name: name}
			for part := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return r == '.' || r == '-' }) {
				n, err := strconv.Atoi(part)
				if err != nil {
					n = -1 // too long for a number, so not a version of a kernel
				}
				k.version = append(k.version, n)
			}
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MaxFunc(found, func(a, b kernel) int {
		return cmp.Or(slices.Compare(a.version, b.version), strings.Compare(a.name, b.name))
	}).name
}

// fetch downloads a package to a directory; apt checks it. If the lists of packages are older than the archive, fetch
// updates them once.
func fetch(ctx context.Context, pkg, dir string, say func(string)) error {
	get := func() error {
		cmd := exec.CommandContext(ctx, "apt-get", "-q", "-o", "APT::Sandbox::User=", "download", pkg)
		cmd.Dir = dir
		_, err := outputOf(cmd)
		return err
	}
	err := get()
	if err == nil || ctx.Err() != nil {
		return err
	}
	if again := update(ctx, say); again != nil {
		return errors.Join(err, again)
	}
	return get()
}

func update(ctx context.Context, say func(string)) error {
	say("fetching the lists of packages")
	_, err := output(ctx, "apt-get", "-q", "update")
	return err
}

// needs returns an error if one of the programs is missing.
func needs(programs ...string) error {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return &linux.UnsupportedError{
				What: "make a guest", Missing: fmt.Sprintf("program %q", name), Err: err,
				Hint: "on Debian: apt-get install qemu-system-x86 busybox-static kmod xz-utils",
			}
		}
	}
	return nil
}

// output runs a program and returns what it printed.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	return outputOf(exec.CommandContext(ctx, name, args...))
}

func outputOf(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[:min(len(cmd.Args), 4)], " "), err,
			bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
