package filtertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
)

// A Tamper is a change that nobody should make.
type Tamper struct {
	Text string // "delete the first rule of a pair"
	// Do makes it. Where it means nothing the error is [errors.ErrUnsupported].
	Do func(k *host.Kernel, s filter.Site) error
}

// Run runs a program in a namespace of a host and returns what it says.
func Run(k *host.Kernel, ns string, args ...string) (out string, err error) {
	path, err := testnet.Locate(args[0], "what has it")
	if err != nil {
		return "", err
	}
	err = k.Do(ns, func() error {
		b, err := exec.Command(path, args[1:]...).CombinedOutput()
		if out = string(b); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	})
	return out, err
}

// Hook is where rules of iptables stand: a namespace, and the built-in chain through which packets of its first
// container come.
func Hook(s filter.Site) (ns, hook string) {
	if s.Point == network.InContainer {
		return s.Containers[0].Namespace, "OUTPUT"
	}
	return "", "FORWARD"
}

// HookTampers change the rules of iptables, of a variant, that a filter asks by chains of its own.
func HookTampers(variant string) []Tamper {
	lines := []string{
		"iptables-VARIANT -D nettoll-own 1", "ip6tables-VARIANT -D nettoll-own 1", "ip6tables-VARIANT -F nettoll-own",
		"iptables-VARIANT -I nettoll-own -j ACCEPT",
		"iptables-VARIANT -F INPUT", "ip6tables-VARIANT -P INPUT ACCEPT",
		"iptables-VARIANT -I INPUT -p tcp --dport 22 -j ACCEPT",
		"iptables-VARIANT -I HOOK -j ACCEPT", "ip6tables-VARIANT -P HOOK ACCEPT", "iptables-VARIANT -D HOOK -j nettoll-own",
		"ip6tables-VARIANT -D HOOK -j DROP", "iptables-VARIANT -F",
	}
	var list []Tamper
	for _, line := range lines {
		list = append(list, Command(strings.ReplaceAll(line, "VARIANT", variant)))
	}
	if variant == "nft" {
		list = append(list, Dormant()...)
	}
	return list
}

// Dormant puts tables of the variant nft to sleep.
func Dormant() []Tamper {
	return []Tamper{
		Command("nft add table ip filter { flags dormant ; }"),
		Command("nft add table ip6 filter { flags dormant ; }"),
	}
}

// Command is a tamper by a program, where rules of iptables stand: HOOK is the built-in chain, and own the same in
// small letters.
func Command(line string) Tamper {
	return Tamper{Text: line, Do: func(k *host.Kernel, s filter.Site) error {
		ns, hook := Hook(s)
		_, err := Run(k, ns, strings.Fields(strings.NewReplacer("HOOK", hook, "own", strings.ToLower(hook)).Replace(line))...)
		return err
	}}
}

// tampers are the filter's, and what can be done to steps of its plan that are not its own.
func (c *trial) tampers(p host.Plan) []Tamper {
	list := c.Tampers
	if c.again {
		list = list[:min(2, len(list))]
	}
	for _, step := range p.Steps {
		switch step := step.(type) {
		case host.Sysctl:
			other := map[bool]string{true: "0", false: "1"}[step.Value == "1"]
			list = append(list, Tamper{step.Key + " = " + other, func(k *host.Kernel, _ filter.Site) error {
				err := set(k, step.NS, step.Key, other)
				if step.IfPresent && errors.Is(err, fs.ErrNotExist) {
					return errors.ErrUnsupported
				}
				return err
			}})
		case filter.Bound:
			const table = "netdev nettoll-antispoof"
			for _, line := range []string{
				"delete table " + table, "flush set " + table + " ipv4", "flush chain " + table + " bound", "insert rule " + table +
					" from-ipv6 accept", "flush chain " + table + " ingress-" + step.Bindings[0].Link,
				"delete chain " + table + " ingress-" + step.Bindings[1].Link, "insert rule " + table + " toward accept",
				"flush chain " + table + " egress-" + step.Bindings[0].Link,
				"delete chain " + table + " egress-" + step.Bindings[1].Link,
			} {
				list = append(list, Command("nft "+line))
			}
		case filter.Frames:
			for _, line := range []string{
				"nft delete table bridge nettoll-frames", "nft add table bridge nettoll-frames { flags dormant ; }",
			} {
				list = append(list, Command(line))
			}
		}
	}
	return list
}

// set writes a variable, and wants it to have the value for who enters the namespace afterwards.
func set(k *host.Kernel, ns, key, value string) error {
	if err := k.Do(ns, func() error { return sysctl.Write(key, value) }); err != nil {
		return err
	}
	return k.Do(ns, func() error {
		got, err := sysctl.Read(key)
		if err == nil && got != value {
			err = fmt.Errorf("write %q to sysctl %q: it is %q afterwards", value, key, got)
		}
		return err
	})
}

// tampering wants Verify to notice what was changed behind its back, on the first host.
func (c *trial) tampering(t testing.TB) (err error) {
	s, err := c.build(t, []string{"ipv4", "ipv6"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Undo()) }()
	if err := s.Apply(t); err != nil {
		return err
	}
	for _, tamper := range c.tampers(s.plans[0]) {
		if err := s.tamper(t, tamper); err != nil {
			return fmt.Errorf("tampering (%s): %w", tamper.Text, err)
		}
	}
	return nil
}

func (s *stand) tamper(t testing.TB, tamper Tamper) (err error) {
	var stack host.Stack
	k := s.Hosts[0].Kernel
	defer func() { err = errors.Join(err, stack.Undo(t.Context(), k)) }()
	if err := stack.Apply(t.Context(), k, s.plans[0]); err != nil {
		return err
	}
	if err := stack.Verify(t.Context(), k); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	err = tamper.Do(k, s.sites[0])
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		if drift := stack.Verify(t.Context(), k); drift != nil {
			return fmt.Errorf("%w, and something is changed: %w", err, drift)
		}
		// Once nft did not find a table that stood there (nft 1.0.6, Linux 6.18).
		t.Logf("tampering (%s) failed and changed nothing, and is tried again: %v", tamper.Text, err)
		if err := tamper.Do(k, s.sites[0]); err != nil {
			return err
		}
	}
	err = stack.Verify(t.Context(), k)
	if err == nil {
		return errors.New("Verify does not see it")
	}
	if _, drift := errors.AsType[*host.DriftError](err); !drift {
		return fmt.Errorf("Verify says %w, want a host.DriftError", err)
	}
	return nil
}
