package lxc

import (
	"fmt"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// profile writes a seccomp profile in the format of LXC, version 2 (seccomp.c of LXC, parse_config_v2). LXC adds the
// rules of other architectures that the machine runs by itself, and leaves out calls that its libseccomp does not know.
func profile(p *specs.LinuxSeccomp) string {
	var b strings.Builder
	fmt.Fprintf(&b, "2\nallowlist %s\n[all]\n", action(p.DefaultAction, p.DefaultErrnoRet))
	for _, rule := range p.Syscalls {
		words := []string{"", action(rule.Action, rule.ErrnoRet)}
		for _, a := range rule.Args {
			word := fmt.Sprintf("[%d,%d,%s]", a.Index, a.Value, a.Op)
			if a.Op == specs.OpMaskedEqual { // here the mask is last
				word = fmt.Sprintf("[%d,%d,%s,%d]", a.Index, a.ValueTwo, a.Op, a.Value)
			}
			words = append(words, word)
		}
		for _, words[0] = range rule.Names {
			b.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return b.String()
}

// action writes what is done with a system call. Docker's profile allows it, or refuses it with an error.
func action(a specs.LinuxSeccompAction, errno *uint) string {
	switch {
	case a == specs.ActAllow:
		return "allow"
	case errno != nil:
		return fmt.Sprintf("errno %d", *errno)
	}
	return "errno 1" // EPERM
}
