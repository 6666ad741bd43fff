package measure

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Rights are what the kernel lets root do in containers that have processes of their own, as in /proc/PID/status.
type Rights struct {
	// Effective and Bounding are sets of capabilities, in hexadecimal as capsh --decode reads them.
	Effective string `json:"effective"`
	Bounding  string `json:"bounding"`
	// Seccomp is how system calls are filtered: 0 not at all, 1 only four are allowed, 2 by Filters filters (seccomp(2)).
	Seccomp int `json:"seccomp"`
	Filters int `json:"filters,omitempty"`
	// NoNewPrivileges says that no program gets more rights than who starts it.
	NoNewPrivileges bool `json:"no_new_privileges"`
	// AppArmor is the profile, "" without one.
	AppArmor string `json:"apparmor,omitempty"`
	// UserNamespace says that root in the container is not root of the machine.
	UserNamespace bool `json:"user_namespace,omitempty"`
}

// String says the rights in a line: first what networks depend on.
func (r Rights) String() string {
	list := []string{capabilities(r.Effective)}
	if r.Bounding != r.Effective {
		list = append(list, "at most "+capabilities(r.Bounding))
	}
	switch r.Seccomp {
	case 0:
		list = append(list, "no seccomp")
	case 1:
		list = append(list, "seccomp strict")
	default:
		list = append(list, "seccomp filter")
	}
	if !r.NoNewPrivileges {
		list = append(list, "new privileges possible")
	} else {
		list = append(list, "no new privileges")
	}
	if r.AppArmor != "" {
		list = append(list, "AppArmor "+r.AppArmor)
	}
	if r.UserNamespace {
		list = append(list, "user namespace")
	}
	return strings.Join(list, ", ")
}

// capabilities says how many there are, and whether those are among them that networks ask for.
func capabilities(set string) string {
	n, err := strconv.ParseUint(set, 16, 64)
	switch {
	case err != nil:
		return "capabilities " + strconv.Quote(set)
	case n == 0:
		return "no capabilities"
	}
	var some []string
	for _, c := range []struct {
		name string
		bit  int
	}{{"NET_RAW", 13}, {"NET_ADMIN", 12}} { // include/uapi/linux/capability.h
		if n&(1<<c.bit) == 0 {
			c.name = "no " + c.name
		}
		some = append(some, c.name)
	}
	return fmt.Sprintf("%d capabilities (%s)", bits.OnesCount64(n), strings.Join(some, ", "))
}

// LabRights says the rights of the containers of each lab in a line, of all generations. Labs whose containers have no
// processes of their own have none.
func LabRights(labs []LabRecord) map[string]string {
	texts := map[string][]string{}
	for _, l := range labs {
		for _, r := range l.Rights {
			if text := r.String(); !slices.Contains(texts[l.Lab], text) {
				texts[l.Lab] = append(texts[l.Lab], text)
			}
		}
	}
	all := map[string]string{}
	for lab, list := range texts {
		all[lab] = strings.Join(list, "; others: ")
	}
	return all
}
