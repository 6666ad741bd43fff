package userns

import (
	"fmt"
	"io/fs"
	"strings"
)

// An Obstacle is a setting of the machine that prevents unprivileged users from making user namespaces, or from having
// any privilege in them.
type Obstacle struct {
	Sysctl string // "user.max_user_namespaces"
	Value  string // its current value
	Want   string // a value that would help
}

// String describes the obstacle: "sysctl user.max_user_namespaces is 0".
func (o Obstacle) String() string { return fmt.Sprintf("sysctl %s is %s", o.Sysctl, o.Value) }

// Help returns the command that removes it, as root.
func (o Obstacle) Help() string { return fmt.Sprintf("sysctl -w %s=%s", o.Sysctl, o.Want) }

// Obstacles looks for obstacles below /proc/sys of root, the machine's root directory. A kernel without a setting does
// not have that obstacle.
func Obstacles(root fs.FS) []Obstacle {
	var found []Obstacle
	for _, o := range []Obstacle{
		{"kernel.unprivileged_userns_clone", "0", "1"},             // Debian and derivatives
		{"user.max_user_namespaces", "0", "10000"},                 // Documentation/admin-guide/sysctl/user.rst
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"}, // Ubuntu, on by default since 23.10
	} {
		value, err := fs.ReadFile(root, "proc/sys/"+strings.ReplaceAll(o.Sysctl, ".", "/"))
		if err == nil && strings.TrimSpace(string(value)) == o.Value {
			found = append(found, o)
		}
	}
	return found
}

// Hint says what would allow an unprivileged user to make a user namespace on the machine with that root directory.
func Hint(root fs.FS) string {
	var help []string
	for _, o := range Obstacles(root) {
		help = append(help, fmt.Sprintf("%s: %s", o, o.Help()))
	}
	if len(help) == 0 {
		help = []string{"in a container, docker run --privileged; under seccomp or a security module, a profile that " +
			"allows user namespaces"}
	}
	return "run as root, or let users make user namespaces: " + strings.Join(help, "; ")
}

// outer reports whether the ID map of a process is that of the first user namespace: every ID is mapped to itself
// (user_namespaces(7)).
func outer(uidMap string) bool {
	return strings.Join(strings.Fields(uidMap), " ") == "0 0 4294967295"
}
