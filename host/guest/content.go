package guest

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// packages lists the packages whose files a guest gets if they are installed here. The first two, dash and kmod, are
// required.
func packages() []string {
	return strings.Fields(`
		busybox-static busybox dash kmod netbase iproute2 iputils-ping ethtool nftables iptables ebtables ipset conntrack
		openvswitch-switch openvswitch-common tcpdump iperf3 wireguard-tools
		runc crun lxc liblxc-common docker.io containerd podman conmon netavark golang-github-containers-common apparmor
		containernetworking-plugins
	`)
}

// useless matches files of packages that a guest does not read: those for people, for package managers and for service
// managers.
const useless = `^/usr/share/(doc|man|info|locale|bash-completion|lintian|bug|python3|initramfs-tools)/|^/etc/(init\.d|default|cron[^/]*|logrotate\.d)/|^(/usr)?/lib/systemd/`

// moduleFolders lists the folders below kernel/ with the modules that networks may need.
func moduleFolders() []string {
	return []string{
		"net", "crypto", "arch/x86/crypto", "lib", "fs/overlayfs", "drivers/net/bonding", "drivers/net/ipvlan",
		"drivers/net/team", "drivers/net/vxlan",
		"drivers/net/wireguard", "drivers/net/netdevsim", "drivers/net", "drivers/char", "drivers/virtio",
	}
}

// addModules adds modules of a kernel whose package is unpacked in tree. It decompresses them, because that is slow in
// a guest.
func addModules(ctx context.Context, root *Archive, tree, release string) error {
	own := filepath.Join("lib", "modules", release)
	from := filepath.Join(tree, own)
	kept := filepath.Join(tree, "kept") // the tree for depmod, which reads everything in it
	var packed []string
	for _, folder := range moduleFolders() {
		deep := folder != "drivers/net"
		err := filepath.WalkDir(filepath.Join(from, "kernel", folder), func(file string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // not with this kernel
			case err != nil:
				return err
			case d.IsDir():
				if !deep && filepath.Base(file) != "net" {
					return fs.SkipDir
				}
				return nil
			}
			below, err := filepath.Rel(tree, file)
			if err != nil {
				return err
			}
			to := filepath.Join(kept, below)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if strings.HasSuffix(to, ".xz") {
				packed = append(packed, to)
			}
			return os.Rename(file, to)
		})
		if err != nil {
			return err
		}
	}
	if len(packed) > 0 {
		if _, err := output(ctx, "xz", append([]string{"-d", "-T0", "--"}, packed...)...); err != nil {
			return err
		}
	}
	for _, name := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(kept, own, name)); err != nil {
			return err
		}
	}
	if _, err := output(ctx, "depmod", "-b", kept, release); err != nil {
		return err
	}
	return root.Tree(filepath.Join("usr", own), filepath.Join(kept, own))
}

// addPrograms adds the files of the packages, and the libraries that their programs load, under the names that they
// have here.
func addPrograms(ctx context.Context, root *Archive) error {
	// Directories that Debian has merged become links, so that each file has only one name.
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + dir); err == nil {
			root.Link(dir, target)
			root.Dir(filepath.Join("usr", dir), 0o755)
		}
	}
	skip := regexp.MustCompile(useless)
	var binaries []string
	for _, pkg := range packages() {
		list, err := output(ctx, "dpkg-query", "-L", pkg)
		if _, failed := errors.AsType[*exec.ExitError](err); failed {
			continue // not installed
		}
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(string(list), "\n") {
			if !filepath.IsAbs(name) || skip.MatchString(name) {
				continue
			}
			binary, err := addInstalled(root, name)
			if err != nil {
				return err
			}
			if binary {
				binaries = append(binaries, name)
			}
		}
	}
	if err := addLibraries(ctx, root, binaries); err != nil {
		return err
	}
	if err := addAliases(root); err != nil {
		return err
	}
	applets, err := output(ctx, "busybox", "--list-full")
	if err != nil {
		return err
	}
	for applet := range strings.FieldsSeq(string(applets)) {
		if dir := filepath.Dir(applet); !strings.HasPrefix(dir, "usr/") {
			applet = filepath.Join("usr", applet)
		}
		// The program may be in the other one of the two directories.
		if !root.Has(filepath.Join("usr/bin", filepath.Base(applet))) &&
			!root.Has(filepath.Join("usr/sbin", filepath.Base(applet))) {
			root.Link(applet, "/usr/bin/busybox")
		}
	}
	return nil
}

// addInstalled adds a file of this machine under the name that it has here. It follows links in the path; a link at its
// end stays a link. It reports whether the file is a program or library that may load other libraries.
func addInstalled(root *Archive, name string) (binary bool, err error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // left out when the package was installed
	}
	if err == nil && info.IsDir() && strings.HasPrefix(name, "/etc/") && !root.Has(name) {
		root.Dir(name, 0o755) // settings may include it, whether or not a file is in it
	}
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err != nil {
		return false, err
	}
	final, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false, err
	}
	if here := filepath.Join(dir, filepath.Base(name)); here != final {
		root.Link(here, final)
	}
	if root.Has(final) {
		return false, nil
	}
	if err := root.File(final, final); err != nil {
		return false, err
	}
	f, err := elf.Open(final)
	if err != nil {
		return false, nil //nolint:nilerr // another kind of file, which loads nothing
	}
	return true, f.Close()
}

// addLibraries adds the libraries that the dynamic linker loads for programs.
func addLibraries(ctx context.Context, root *Archive, programs []string) error {
	cmd := exec.CommandContext(ctx, "ldd", programs...)
	var out bytes.Buffer
	cmd.Stdout = &out
	// Its status is 1 if one of the files is not dynamic; it then prints that.
	if err := cmd.Run(); err != nil {
		if _, failed := errors.AsType[*exec.ExitError](err); !failed {
			return err
		}
	}
	for _, name := range libraries(out.String()) {
		if _, err := addInstalled(root, name); err != nil {
			return fmt.Errorf("a library: %w", err)
		}
	}
	return nil
}

// libraries returns the files in the output of ldd, "NAME => FILE (ADDRESS)" or "FILE (ADDRESS)".
func libraries(ldd string) []string {
	var found []string
	for line := range strings.SplitSeq(ldd, "\n") {
		if _, after, arrow := strings.Cut(line, "=>"); arrow {
			line = after
		}
		name, _, address := strings.Cut(strings.TrimSpace(line), " (0x")
		if address && filepath.IsAbs(name) {
			found = append(found, name)
		}
	}
	return found
}

// addAliases adds links that no package lists: those that update-alternatives(1) made to the added programs, such as
// iptables.
func addAliases(root *Archive) error {
	for _, dir := range []string{"/usr/sbin", "/usr/bin"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Type()&fs.ModeSymlink == 0 {
				continue
			}
			name := filepath.Join(dir, e.Name())
			if final, err := filepath.EvalSymlinks(name); err == nil && root.Has(final) {
				root.Link(name, final)
			}
		}
	}
	return nil
}
