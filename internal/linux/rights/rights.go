package rights

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// Rights are those of a process, as the kernel has them.
type Rights struct {
	// Effective and Bounding are sets of capabilities: bit 0 is the first of [Names].
	Effective uint64 `json:"effective"`
	Bounding  uint64 `json:"bounding"`
	// Seccomp is how system calls are filtered: 0 not at all, 1 only four are allowed, 2 by Filters filters (seccomp(2)).
	Seccomp int `json:"seccomp,omitempty"`
	Filters int `json:"filters,omitempty"`
	// NoNewPrivileges says that no program that it starts gets more rights (prctl(2), PR_SET_NO_NEW_PRIVS).
	NoNewPrivileges bool `json:"no_new_privileges,omitempty"`
	// AppArmor is its profile with the mode, "" if the kernel has none.
	AppArmor string `json:"apparmor,omitempty"`
	// UserNamespace says that its users are not those of the machine (user_namespaces(7)).
	UserNamespace bool `json:"user_namespace,omitempty"`
	// Network says that its network namespace belongs to its user namespace, so that capabilities count there.
	Network bool `json:"network,omitempty"`
}

// Own returns the rights of this process.
func Own() (Rights, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Rights{}, fmt.Errorf("read own rights: %w", err)
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return Rights{}, fmt.Errorf("read own rights: %w", err)
	}
	r, err := parse(string(status), string(users), label("/proc/self"))
	if err == nil {
		r.Network, err = networkOwned()
	}
	return r, err
}

// parse reads what /proc says of a process (proc_pid_status(5), proc_pid_uid_map(5), proc_pid_attr(5)).
func parse(status, users, profile string) (r Rights, err error) {
	number := func(key string, base int) (n uint64) {
		_, rest, found := strings.Cut("\n"+status, "\n"+key+":")
		line, _, _ := strings.Cut(rest, "\n")
		text := strings.TrimSpace(line)
		n, failed := strconv.ParseUint(text, base, 64)
		if failed != nil && err == nil && (found || key != "Seccomp_filters") { // which kernels before 5.9 do not say
			err = fmt.Errorf("read own rights: unexpected %s %q in /proc/self/status", key, text)
		}
		return n
	}
	r.Effective, r.Bounding = number("CapEff", 16), number("CapBnd", 16)
	r.NoNewPrivileges = number("NoNewPrivs", 10) == 1
	r.Seccomp, r.Filters = int(number("Seccomp", 10)), int(number("Seccomp_filters", 10))
	r.AppArmor = profile
	r.UserNamespace = strings.Join(strings.Fields(users), " ") != "0 0 4294967295"
	return r, err
}

// All are the capabilities that this process may use, by its permitted set.
func All() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read own rights: %w", err)
	}
	return permitted(string(status))
}

func permitted(status string) (uint64, error) {
	_, rest, _ := strings.Cut(status, "CapPrm:")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("read own rights: unexpected CapPrm %q in /proc/self/status", strings.TrimSpace(line))
	}
	return set, nil
}

// LocksMemory reports whether this process may raise its limit of locked memory (RLIMIT_MEMLOCK, getrlimit(2)).
func LocksMemory() (bool, error) {
	if _, limited := procfs.HardRlimit(os.DirFS("/"), "Max locked memory"); !limited {
		return true, nil
	}
	set, err := All()
	return slices.Contains(List(set), "CAP_SYS_RESOURCE"), err
}

// List returns the names of the capabilities of a set, in the order of their numbers. Those that have no name here yet
// are called by their number.
func List(set uint64) (list []string) {
	names := Names()
	for i := range 64 {
		switch {
		case set&(1<<i) == 0:
		case i < len(names):
			list = append(list, names[i])
		default:
			list = append(list, "CAP_"+strconv.Itoa(i))
		}
	}
	return list
}

// Names are all capabilities, in the order of their numbers (include/uapi/linux/capability.h).
func Names() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
		"CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN",
		"CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT",
		"CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
		"CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
		"CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND",
		"CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
	}
}
