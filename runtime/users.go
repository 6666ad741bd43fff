package runtime

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/userns"
	"github.com/nettoll/nettoll/part"
)

// UserNamespace is the name of a parameter of runtimes that can give each container a user namespace of its own.
const UserNamespace = "userns"

// The users of a container with a user namespace are the UserCount users of the host from FirstUser on: the first range
// that useradd(8) reserves for that (subuid(5)).
const (
	FirstUser = 100_000
	UserCount = 65_536
)

// UserNamespaceParam returns that parameter.
func UserNamespaceParam() part.Param {
	p := part.Switch(UserNamespace, "whether each container has a user namespace, to which its network namespace "+
		"belongs; root in it is another user outside")
	p.Quiet = true
	return p
}

// CheckUsers returns a [linux.UnsupportedError] if these parameters ask for user namespaces and this process has no
// users to give away.
func CheckUsers(p part.Params) error {
	if !p.On(UserNamespace) {
		return nil
	}
	has, err := userns.Has(FirstUser, UserCount)
	if err != nil || has {
		return err
	}
	return &linux.UnsupportedError{
		What: "give containers user namespaces", Missing: fmt.Sprintf("users %d to %d", FirstUser, FirstUser+UserCount-1),
		Hint: "run as root, outside of a user namespace",
	}
}

// UserFlags are flags of 'podman run' and 'ctr run' that give the container a user namespace, if it is to have one.
func (r Rights) UserFlags() []string {
	if !r.Users {
		return nil
	}
	ids := fmt.Sprintf("0:%d:%d", FirstUser, UserCount)
	return []string{"--uidmap", ids, "--gidmap", ids}
}

// Adopt gives the host the network namespace that a runtime has made for the container, whose worker has this PID.
func (c Contained) Adopt(k *host.Kernel, pid int) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	return host.Namespace{Name: c.Namespace}.Adopt(k, ns)
}

// Reachable lets all users read a directory of [host.Kernel.RunDir], and pass through those above it. Root of a
// container with a user namespace is one of them.
func Reachable(k *host.Kernel, name string) (dir string, err error) {
	if dir, err = k.RunDir(name); err != nil {
		return "", err
	}
	top, err := k.RunDir("")
	if err != nil {
		return "", err
	}
	const read, pass = 0o755, 0o711
	if err := os.Chmod(dir, read); err != nil {
		return "", err
	}
	for at := dir; at != top; {
		at = filepath.Dir(at)
		if err := os.Chmod(at, pass); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// ReachableProgram returns a path at which all users find a program, a copy if need be.
func ReachableProgram(k *host.Kernel, path string) (string, error) {
	if reachable(path) {
		return path, nil
	}
	dir, err := Reachable(k, "runtime")
	if err != nil {
		return "", err
	}
	return copied(dir, path)
}

// reachable reports whether all users can run the program.
func reachable(path string) bool {
	const run, pass = 0o005, 0o001
	need := os.FileMode(run)
	for at := path; ; at, need = filepath.Dir(at), pass {
		info, err := os.Stat(at)
		if err != nil || info.Mode()&need != need {
			return false
		}
		if at == filepath.Dir(at) {
			return true
		}
	}
}
