package lxc

import (
	"fmt"
	"strings"
)

// program is where this program is in a container.
const program = "/nettoll"

// A config is what the configuration of a container depends on.
type config struct {
	name          string
	root, program string   // on the host
	args          []string // of the worker
	network       string   // path of its network namespace
	cgroup        string
	capabilities  []string
	filter        string // path of the seccomp profile, "" for none
	newPrivileges bool
}

// String writes the configuration (lxc.container.conf(5)).
func (c config) String() string {
	var b strings.Builder
	set := func(key, format string, args ...any) { fmt.Fprintf(&b, "lxc."+key+" = "+format+"\n", args...) }
	set("rootfs.path", "dir:%s", c.root)
	set("rootfs.options", "ro")
	set("init.cmd", "%s %s", program, strings.Join(c.args, " "))
	set("uts.name", "%s", c.name)
	set("namespace.share.net", "%s", c.network)
	set("cgroup.dir", "%s", c.cgroup)
	set("mount.auto", "proc:mixed sys:ro")
	set("mount.entry", "%s %s none bind,ro 0 0", c.program, strings.TrimPrefix(program, "/"))
	set("autodev", "1")
	set("tty.max", "0")
	set("pty.max", "1")
	set("console.path", "none")
	set("apparmor.profile", "unconfined")
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
