package runtime

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/part"
)

// Capabilities is the name of a parameter: what root may do in a container.
const Capabilities = "capabilities"

// The values of [Capabilities].
const (
	usual = "usual"
	all   = "all"
)

// CapabilitiesParam returns the parameter of runtimes that can choose.
func CapabilitiesParam() part.Param {
	return part.Param{
		Name: Capabilities, Default: usual, Values: []string{usual, all}, Quiet: true,
		Summary: "what root may do in a container; usual: the 14 capabilities that Docker leaves it; all: everything",
	}
}

// Privileged says whether a container keeps all capabilities.
func Privileged(p part.Params) bool { return p[Capabilities] == all }

// CapabilitiesOf are those of a container.
func CapabilitiesOf(privileged bool) []string {
	if privileged {
		return AllCapabilities()
	}
	return UsualCapabilities()
}

// UsualCapabilities are those that Docker leaves to root in a container (moby, oci/caps/defaults.go).
func UsualCapabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// AllCapabilities are those that this process has: more cannot be given to a container.
func AllCapabilities() []string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return known()
	}
	return held(string(text))
}

// LackedCapabilities are those that this process has not.
func LackedCapabilities() (list []string) {
	own := AllCapabilities()
	for _, name := range known() {
		if !slices.Contains(own, name) {
			list = append(list, name)
		}
	}
	return list
}

// held returns the permitted capabilities of a process (proc_pid_status(5)).
func held(status string) (list []string) {
	_, rest, _ := strings.Cut(status, "CapPrm:")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return known()
	}
	for i, name := range known() {
		if set&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// known are all capabilities, in the order of their numbers (include/uapi/linux/capability.h).
func known() []string {
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
