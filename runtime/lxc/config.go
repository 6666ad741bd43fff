package lxc

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/runtime"
)

// program is where this program is in a container.
const program = "/nettoll"

// monitor ends the name of the control group of a container's monitor, which is beside that of the container: one more
// level would slow down each packet for which a process wakes up (docs/containers.md).
const monitor = ".monitor"

// pivot ends the name of a control group in which a monitor is when it ends, because it could not remove its own
// otherwise. Without a name of ours, all monitors of the machine share one (lxc.pivot), which LXC never removes.
const pivot = ".pivot"

// A config is what the configuration of a container depends on.
type config struct {
	name          string
	root, program string   // on the host
	args          []string // of the worker
	network       string   // path of its network namespace
	own           bool     // LXC makes its network namespace, with the link or empty
	link          []setting
	cgroup        string
	capabilities  []string
	limits        []setting
	ending        string // a command for when the container has ended and its cgroups are still there; "" for none
	filter        string // path of the seccomp profile, "" for none
	newPrivileges bool
	profile       string // of AppArmor, "" for none
	users         bool   // it has a user namespace
}

// String writes the configuration (lxc.container.conf(5)).
func (c config) String() string {
	var b strings.Builder
	set := func(key, format string, args ...any) { fmt.Fprintf(&b, "lxc."+key+" = "+format+"\n", args...) }
	set("rootfs.path", "dir:%s", c.root)
	set("rootfs.options", "ro")
	set("init.cmd", "%s %s", program, strings.Join(c.args, " "))
	set("uts.name", "%s", c.name)
	if c.users {
		for _, of := range []string{"u", "g"} {
			set("idmap", "%s 0 %d %d", of, runtime.FirstUser, runtime.UserCount)
		}
	}
	switch {
	case c.own && len(c.link) == 0:
		set("net.0.type", "empty")
	case !c.own:
		set("namespace.share.net", "%s", c.network)
	}
	for _, s := range c.link {
		set(s.key, "%s", s.value)
	}
	set("cgroup.dir.container", "%s", c.cgroup)
	set("cgroup.dir.monitor", "%s", c.cgroup+monitor)
	set("cgroup.dir.monitor.pivot", "%s", c.cgroup+pivot)
	set("mount.auto", "proc:mixed sys:ro")
	set("mount.entry", "%s %s none bind,ro 0 0", c.program, strings.TrimPrefix(program, "/"))
	set("autodev", "1")
	set("tty.max", "0")
	set("pty.max", "1")
	set("console.path", "none")
	set("apparmor.profile", "%s", cmp.Or(c.profile, "unconfined"))
	for _, l := range c.limits {
		set(l.key, "%s", l.value)
	}
	if c.ending != "" {
		set("hook.version", "1") // without more arguments
		set("hook.stop", "%s", c.ending)
	}
	if !c.newPrivileges {
		set("no_new_privs", "1")
	}
	if c.filter != "" {
		set("seccomp.profile", "%s", c.filter)
	}
	if len(c.capabilities) == 0 {
		set("cap.keep", "none")
		return b.String()
	}
	keep := make([]string, len(c.capabilities))
	for i, name := range c.capabilities {
		keep[i] = strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	set("cap.keep", "%s", strings.Join(keep, " "))
	return b.String()
}

// A setting is a key of the configuration, without "lxc.", and its value.
type setting struct{ key, value string }

// limits writes limits for cgroups of a version. The limit of memory holds for memory and swap together: a container
// that swaps would measure the disk.
func limits(l runtime.Limits, v2, swaps bool) (list []setting) {
	version := "cgroup."
	if v2 {
		version = "cgroup2."
	}
	add := func(file, format string, values ...any) {
		list = append(list, setting{version + file, fmt.Sprintf(format, values...)})
	}
	switch {
	case l.CPUs == 0:
	case v2:
		add("cpu.max", "%d %d", l.Quota(), runtime.Period)
	default:
		add("cpu.cfs_period_us", "%d", runtime.Period)
		add("cpu.cfs_quota_us", "%d", l.Quota())
	}
	if l.CPUSet != nil {
		add("cpuset.cpus", "%s", l.List())
	}
	switch {
	case l.Memory == 0:
	case v2:
		add("memory.max", "%d", l.Memory)
		add("memory.swap.max", "0")
	default:
		add("memory.limit_in_bytes", "%d", l.Memory)
		if swaps {
			add("memory.memsw.limit_in_bytes", "%d", l.Memory)
		}
	}
	return list
}
