package oci

import (
	"encoding/json"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// program is where this program is in a container.
const program = "/nettoll"

// usuals are the capabilities that Docker leaves to root in a container (moby, oci/caps/defaults.go).
func usuals() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// known are all capabilities (capabilities(7)); a runtime leaves out those that it does not have.
func known() []string {
	return append(usuals(), "CAP_AUDIT_CONTROL", "CAP_AUDIT_READ", "CAP_BLOCK_SUSPEND", "CAP_BPF",
		"CAP_CHECKPOINT_RESTORE", "CAP_DAC_READ_SEARCH", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_LEASE",
		"CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE", "CAP_NET_ADMIN", "CAP_NET_BROADCAST", "CAP_PERFMON",
		"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_MODULE", "CAP_SYS_NICE", "CAP_SYS_PACCT", "CAP_SYS_PTRACE",
		"CAP_SYS_RAWIO", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_SYSLOG", "CAP_WAKE_ALARM")
}

// A bundle is what the configuration of a container depends on.
type bundle struct {
	root, program string   // on the host
	args, env     []string // of the worker
	network       string   // path of its network namespace; "" for the host's
	cgroup        string
	capabilities  []string
}

// config writes the configuration (config.md of the specification): the namespaces and mounts that 'runc spec' writes,
// but for a terminal.
func (b bundle) config() ([]byte, error) {
	namespaces := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
	}
	if b.network != "" {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: b.network})
	}
	held := []string{"nosuid", "noexec", "nodev"}
	return json.MarshalIndent(specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: b.root, Readonly: true},
		Process: &specs.Process{
			Args: slices.Concat([]string{program}, b.args), Env: b.env, Cwd: "/", NoNewPrivileges: true,
			Capabilities: &specs.LinuxCapabilities{
				Bounding: b.capabilities, Effective: b.capabilities, Permitted: b.capabilities,
			},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: held},
			{
				Destination: "/dev", Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"},
			},
			{
				Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: append(held, "mode=1777", "size=65536k"),
			},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: append(held, "ro")},
			{Destination: program, Type: "bind", Source: b.program, Options: []string{"bind", "ro", "nosuid", "nodev"}},
		},
		Linux: &specs.Linux{
			CgroupsPath: "/" + b.cgroup, Namespaces: namespaces,
			MaskedPaths: []string{
				"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
				"/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}, "", "  ")
}
