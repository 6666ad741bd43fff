package runtime

import (
	"slices"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/part"
)

// Names of parameters of runtimes that can choose what root may do in a container.
const (
	Capabilities    = "capabilities"
	Seccomp         = "seccomp"
	NoNewPrivileges = "no-new-privileges"
)

// Their values.
const (
	usual = "usual"
	all   = "all"
	none  = "none"
)

// Rights are what root may do in a container, as a step has them.
type Rights struct {
	// Privileged leaves root all capabilities, and Bare none.
	Privileged bool `json:"privileged,omitempty"`
	Bare       bool `json:"bare,omitempty"`
	// Filtered refuses the system calls that Docker refuses.
	Filtered bool `json:"filtered,omitempty"`
	// NewPrivileges lets programs get more rights than who starts them.
	NewPrivileges bool `json:"new_privileges,omitempty"`
	// AppArmor is the profile that the runtime is asked for; "" for none.
	AppArmor string `json:"apparmor,omitempty"`
	// Users gives the container a user namespace: see [UserNamespace].
	Users bool `json:"users,omitempty"`
}

// RightsParams returns the parameters that say what root may do in a container, with the defaults of a runtime: whether
// system calls are filtered, and whether programs can get new privileges.
func RightsParams(filtered, newPrivileges bool) part.List {
	switched := part.Switch(NoNewPrivileges, "whether no program in a container gets more rights than who starts it")
	switched.Default, switched.Quiet = strconv.FormatBool(!newPrivileges), true
	profile := none
	if filtered {
		profile = usual
	}
	return part.List{
		{
			Name: Capabilities, Default: usual, Values: []string{usual, all, none}, Quiet: true,
			Summary: "what root may do in a container; usual: the 14 capabilities that Docker leaves it, or what Podman or " +
				"containerd leave it by themselves; all: everything; none: no more than other users",
		},
		{
			Name: Seccomp, Default: profile, Values: []string{none, usual}, Quiet: true,
			Summary: "which system calls are refused in a container; usual: those that Docker refuses, or that Podman and " +
				"containerd refuse by themselves; none: all are allowed",
		},
		switched,
		appArmorParam(),
	}
}

// RightsOf returns the rights that the parameters of a runtime choose.
func RightsOf(p part.Params) Rights {
	r := Rights{
		Privileged: p[Capabilities] == all, Bare: p[Capabilities] == none, Filtered: p[Seccomp] == usual,
		NewPrivileges: !p.On(NoNewPrivileges), Users: p.On(UserNamespace),
	}
	if p[AppArmor] != none {
		r.AppArmor = p[AppArmor]
	}
	return r
}

// String says in what the rights differ from the usual capabilities alone: ", with all capabilities"; "" if in nothing.
func (r Rights) String() (s string) {
	switch {
	case r.Privileged:
		s = ", with all capabilities"
	case r.Bare:
		s = ", without capabilities"
	}
	if r.Filtered {
		s += ", with a seccomp profile"
	}
	if r.NewPrivileges {
		s += ", with a way to new privileges"
	}
	if r.AppArmor != "" {
		s += ", with AppArmor profile " + r.AppArmor
	}
	if r.Users {
		s += ", with a user namespace"
	}
	return s
}

// Capabilities are those of root in a container: never more than this process has.
func (r Rights) Capabilities() ([]string, error) {
	switch {
	case r.Bare:
		return []string{}, nil
	case r.Privileged:
		set, err := rights.All()
		return rights.List(set), err
	}
	return UsualCapabilities(), nil
}

// UsualCapabilities are those that Docker leaves to root in a container (moby, oci/caps/defaults.go).
func UsualCapabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// LackedCapabilities are those that this process has not.
func LackedCapabilities() ([]string, error) {
	set, err := rights.All()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rights.Names(), func(c string) bool { return slices.Contains(rights.List(set), c) }), nil
}

// Flags are those of the commands of Docker and Podman that give a container these rights.
func (r Rights) Flags() (args []string, err error) {
	switch {
	case r.Bare:
		args = append(args, "--cap-drop", "ALL")
	case r.Privileged:
		args = append(args, "--cap-add", "ALL") // of those that it knows
		lacked, err := LackedCapabilities()
		if err != nil {
			return nil, err
		}
		for _, capability := range lacked {
			args = append(args, "--cap-drop", capability)
		}
	}
	if !r.Filtered {
		args = append(args, "--security-opt", "seccomp=unconfined")
	}
	if !r.NewPrivileges {
		args = append(args, "--security-opt", "no-new-privileges")
	}
	return append(args, r.ProfileFlags()...), nil
}

// ProfileFlags are those of the flags that choose the AppArmor profile; none if the runtime is not asked for one.
func (r Rights) ProfileFlags() []string {
	if r.AppArmor == "" {
		return nil
	}
	return []string{"--security-opt", "apparmor=" + r.AppArmor}
}

// Filter returns the seccomp profile of a container, nil if no system call is filtered.
func (r Rights) Filter() (*specs.LinuxSeccomp, error) {
	if !r.Filtered {
		return nil, nil
	}
	capabilities, err := r.Capabilities()
	if err != nil {
		return nil, err
	}
	return profile(capabilities)
}
