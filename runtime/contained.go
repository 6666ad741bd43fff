package runtime

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// The parameter of runtimes that can choose what makes a container, and its values.
const (
	Command = "command"
	RunC    = "runc"
	CRun    = "crun"
)

// CommandParam returns that parameter.
func CommandParam() part.Param {
	return part.Param{
		Name: Command, Default: RunC, Values: []string{RunC, CRun}, Summary: "the program that makes containers",
	}
}

// NeededCommand is the program of that parameter. runc has had all of cgroup v2 since 1.0 (github.com/opencontainers/
// runc, docs/cgroup-v2.md: 1.0.0-rc93). For crun 1.0, no source was found that says what it lacks.
func NeededCommand(p part.Params) Needed {
	return Needed{Program: p[Command], Package: p[Command], Least: "1.0"}
}

// Workers is embedded by runtimes whose containers have a worker as their only process.
type Workers struct{}

// Populated is true.
func (Workers) Populated(part.Params) bool { return true }

// Claims says that abstract unix sockets belong to a network namespace (unix(7)).
func (Workers) Claims() threat.Claims { return threat.Withstands(threat.Abstract) }

// Contained is embedded by the steps that make such a container.
type Contained struct {
	Name string `json:"name"`
	// Namespace is that of its network; "" is the host's own.
	Namespace string `json:"namespace,omitempty"`
	Rights
	// Limits are those of its cgroups.
	Limits Limits `json:"limits,omitzero"`
}

// Contain returns what the step of a container has with these parameters.
func Contain(c Container, p part.Params) Contained {
	return Contained{Name: c.Name, Namespace: c.Namespace, Rights: RightsOf(p), Limits: LimitsOf(p)}
}

// ContainAlone returns what the step of [Commanding] has with these parameters: of its rights only the AppArmor
// profile, because a runtime that sees AppArmor chooses one otherwise.
func ContainAlone(container string, p part.Params) Contained {
	return Contained{Name: container, Rights: Rights{AppArmor: RightsOf(p).AppArmor}}
}

// Described describes the step in plain words. By is what makes the container.
func (c Contained) Described(by string) string {
	s := by + " container " + c.Name
	if c.Namespace == "" {
		s += " in the host's network namespace"
	}
	return s + c.Rights.String() + c.Limits.Described()
}

// UndoneFirst makes the step a [host.FirstUndone].
func (Contained) UndoneFirst() {}

// Concurrent makes the step a [host.Concurrent].
func (Contained) Concurrent() bool { return true }

// Outlives returns UntilBoot: cgroups belong to the machine.
func (Contained) Outlives() host.Lifetime { return host.UntilBoot }

// Groups makes the step a [host.Grouping].
func (Contained) Groups() {}
