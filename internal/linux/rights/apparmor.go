package rights

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

// Unconfined is the profile of a process that AppArmor does not confine. The kernel does not list it.
const Unconfined = "unconfined"

// Profiles lists the AppArmor profiles that the kernel has loaded. The error is a [linux.UnsupportedError], for what is
// done with them, if the kernel has no AppArmor, or if this process may not read the list.
func Profiles(what string) ([]string, error) { return profiles("/sys", what) }

// profiles is [Profiles] by a directory in the place of /sys.
func profiles(sys, what string) (list []string, err error) {
	enabled, err := os.ReadFile(filepath.Join(sys, "module/apparmor/parameters/enabled"))
	if err != nil || !strings.HasPrefix(string(enabled), "Y") {
		return nil, &linux.UnsupportedError{
			What: what, Missing: "AppArmor in the kernel", Hint: "boot with lsm=…,apparmor a kernel that has it", Err: err,
		}
	}
	text, err := os.ReadFile(filepath.Join(sys, "kernel/security/apparmor/profiles"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &linux.UnsupportedError{
			What: what, Missing: "securityfs", Err: err, Hint: "mount -t securityfs securityfs /sys/kernel/security",
		}
	case errors.Is(err, fs.ErrPermission):
		return nil, &linux.UnsupportedError{
			What: what, Missing: "permission to list the profiles of AppArmor", Err: err, Hint: "run as root",
		}
	case err != nil:
		return nil, fmt.Errorf("%s: list the profiles of AppArmor: %w", what, err)
	}
	for line := range strings.Lines(string(text)) {
		list = append(list, nameOf(line))
	}
	slices.Sort(list)
	return list, nil
}

// Confined reports whether an AppArmor profile restricts the process.
func (r Rights) Confined() bool { return r.AppArmor != "" && nameOf(r.AppArmor) != Unconfined }

// ProfileOf returns the AppArmor profile of a process in proc, a directory such as /proc; "" if the kernel has none.
func ProfileOf(proc string, pid int) (string, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	return nameOf(label(dir)), nil
}

// label is the profile of a process with its mode, by its directory in /proc: "docker-default (enforce)".
func label(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "attr/apparmor/current"))
	if err != nil { // kernels before 5.8, or with one security module; without one reading fails, too
		text, _ = os.ReadFile(filepath.Join(dir, "attr/current"))
	}
	return strings.TrimRight(string(text), "\x00\n")
}

// nameOf is a profile without its mode.
func nameOf(label string) string {
	label = strings.TrimSpace(label)
	if i := strings.LastIndex(label, " ("); i >= 0 {
		label = label[:i]
	}
	return label
}
