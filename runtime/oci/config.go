package oci

import (
	"encoding/json"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nettoll/nettoll/runtime"
)

// program is where this program is in a container.
const program = "/nettoll"

// A bundle is what the configuration of a container depends on.
type bundle struct {
	root, program string   // on the host
	args, env     []string // of the worker
	network       string   // path of its network namespace; "" for the host's, or its own
	own           bool     // it has a network namespace of its own, which the runtime makes
	cgroup        string
	capabilities  []string
	limits        runtime.Limits
	swaps         bool                // whether the limit of memory can hold with swap
	filter        *specs.LinuxSeccomp // nil: all system calls are allowed
	newPrivileges bool
	profile       string // of AppArmor, "" for none
	users         bool   // it has a user namespace
}

// config writes the configuration (config.md of the specification): the namespaces and mounts that 'runc spec' writes,
// but for a terminal.
func (b bundle) config() ([]byte, error) {
	namespaces := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
	}
	if b.network != "" || b.own {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: b.network})
	}
	var users []specs.LinuxIDMapping
	if b.users {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		users = []specs.LinuxIDMapping{{HostID: runtime.FirstUser, Size: runtime.UserCount}}
	}
	held := []string{"nosuid", "noexec", "nodev"}
	return json.MarshalIndent(specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: b.root, Readonly: true},
		Process: &specs.Process{
			Args: slices.Concat([]string{program}, b.args), Env: b.env, Cwd: "/", NoNewPrivileges: !b.newPrivileges,
			Capabilities: &specs.LinuxCapabilities{
				Bounding: b.capabilities, Effective: b.capabilities, Permitted: b.capabilities,
			},
			ApparmorProfile: b.profile,
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
			CgroupsPath: "/" + b.cgroup, Namespaces: namespaces, UIDMappings: users, GIDMappings: users,
			Seccomp: b.filter, Resources: resources(b.limits, b.swaps),
			MaskedPaths: []string{
				"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
				"/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}, "", "  ")
}

// resources writes limits (config-linux.md of the specification); nil for none. The limit of memory holds for memory
// and swap together: a container that swaps would measure the disk.
func resources(l runtime.Limits, swaps bool) *specs.LinuxResources {
	r := &specs.LinuxResources{}
	if l.CPUs > 0 || l.CPUSet != nil {
		r.CPU = &specs.LinuxCPU{Cpus: l.List()}
	}
	if l.CPUs > 0 {
		period, quota := uint64(runtime.Period), l.Quota()
		r.CPU.Period, r.CPU.Quota = &period, &quota
	}
	if l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory}
		if swaps {
			r.Memory.Swap = &l.Memory
		}
	}
	if r.CPU == nil && r.Memory == nil {
		return nil
	}
	return r
}
