package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/mount"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// AppArmor is the name of the parameter that chooses an AppArmor profile.
const AppArmor = "apparmor"

func appArmorParam() part.Param {
	return part.Param{
		Name: AppArmor, Default: none, Quiet: true, Check: profileName,
		Summary: "the AppArmor profile of a container: one that the kernel has loaded, such as docker-default, or " +
			"unconfined; none: the runtime is not asked for one",
	}
}

// longestProfile is how long the name of a profile may be.
const longestProfile = 100

// profileName checks the name of a profile. Names with other characters are for programs at a path.
func profileName(s string) (string, error) {
	if s == "" || len(s) > longestProfile || s[0] == '-' || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}) {
		return "", fmt.Errorf("invalid AppArmor profile %q (valid: %s, or a name such as docker-default, of at most %d "+
			`letters, digits, ".", "_" and "-")`, s, none, longestProfile)
	}
	return s, nil
}

// DefaultProfile is the profile of Docker's containers. A daemon that sees AppArmor loads it.
const DefaultProfile = "docker-default"

// A Loader is a runtime with a daemon of each host that loads AppArmor profiles into the kernel, if it sees AppArmor
// and they are missing.
type Loader interface {
	Runtime
	// Loads returns their names.
	Loads(p part.Params) []string
}

// checkProfiles returns a [linux.UnsupportedError] unless the kernel has the AppArmor profile that the runtime of a
// stack is to choose, and all others that it would load. It wants nothing if that is to choose none.
func checkProfiles(s stack.Stack) error {
	_, params, _ := stack.PartOf[Runtime](s)
	chosen := RightsOf(params).AppArmor
	if chosen == "" {
		return nil
	}
	wanted := []string{chosen}
	if l, params, ok := stack.PartOf[Loader](s); ok {
		wanted = append(wanted, l.Loads(params)...)
	}
	what := "give containers the AppArmor profile " + chosen
	loaded, err := rights.Profiles(what)
	if err != nil {
		return err
	}
	for _, name := range wanted {
		if name == rights.Unconfined || slices.Contains(loaded, name) {
			continue
		}
		u := &linux.UnsupportedError{
			What: what, Missing: fmt.Sprintf("AppArmor profile %q", name),
			Hint: "load it by apparmor_parser -r FILE: nettoll loads none",
		}
		if name == DefaultProfile {
			u.Hint = "start the machine's Docker, which loads it: nettoll loads none, and lets no daemon in a lab do so"
		}
		u.Hint += "; " + someOf(loaded)
		return u
	}
	return nil
}

// someOf lists a few of the profiles that are loaded.
func someOf(loaded []string) string {
	const most = 8
	switch n := len(loaded); {
	case n == 0:
		return "the kernel has no profile"
	case n > most:
		return fmt.Sprintf("loaded are %s and %d others", strings.Join(loaded[:most], ", "), n-most)
	}
	return "loaded are " + strings.Join(loaded, ", ")
}

// ShowProfiles returns the step that lets the programs of a host see AppArmor; none if parameters choose no profile.
func ShowProfiles(p part.Params) []host.Step {
	if RightsOf(p).AppArmor == "" {
		return nil
	}
	return []host.Step{Profiles{}}
}

// Profiles lets the programs of a host see that the kernel has AppArmor, and which profiles it has. They can load none.
type Profiles struct{}

// Kind returns "apparmor-profiles".
func (Profiles) Kind() string { return "apparmor-profiles" }

// String describes the step in plain words.
func (Profiles) String() string { return "list of AppArmor profiles (securityfs, read-only)" }

// Groups makes Profiles a [host.Grouping].
func (Profiles) Groups() {}

// Apply mounts securityfs.
func (Profiles) Apply(context.Context, *host.Kernel) error { return mount.ShowSecurity() }

// Remove unmounts it.
func (Profiles) Remove(context.Context, *host.Kernel) error { return mount.HideSecurity() }

// Verify wants it to be mounted.
func (p Profiles) Verify(*host.Kernel) error {
	shown, err := mount.SecurityShown()
	if err != nil || shown {
		return err
	}
	d := &host.DriftError{Step: p.String()}
	d.Add("securityfs", "mounted", "absent")
	return d
}

// profileLimit is how long a container may take to have its profile. It gets it when its program starts, and the
// program of a runtime may return before.
const profileLimit = 2 * time.Second

// profiled waits until a container has the AppArmor profile that was asked for.
func (c Contained) profiled(ctx context.Context, proc string, pid int) error {
	if c.AppArmor == "" {
		return nil
	}
	for end := time.Now().Add(profileLimit); ; {
		has, err := rights.ProfileOf(proc, pid)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return errors.New("its worker has ended")
		case err != nil:
			return fmt.Errorf("read its AppArmor profile: %w", err)
		case has == c.AppArmor:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("it has the AppArmor profile %q (want %q)", has, c.AppArmor)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// suspected adds to an error of a container that its AppArmor profile may be to blame.
func (r Rights) suspected(err error) error {
	if err == nil || r.AppArmor == "" || r.AppArmor == rights.Unconfined {
		return err
	}
	return fmt.Errorf("%w; %s", err, r.suspicion())
}

// suspicion says that an AppArmor profile may be to blame; "" without one.
func (r Rights) suspicion() string {
	if r.AppArmor == "" || r.AppArmor == rights.Unconfined {
		return ""
	}
	return fmt.Sprintf("its AppArmor profile %s may refuse what a worker needs (the kernel's log has what it refuses: "+
		"dmesg | grep DENIED)", r.AppArmor)
}
