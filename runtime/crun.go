package runtime

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/part"
)

// lockless is the oldest crun that loads the eBPF program for the devices of a container without raising the limit of
// locked memory (github.com/containers/crun, NEWS). Linux needs no such limit since 5.11.
const lockless = "1.14"

// CheckDevices returns a [linux.UnsupportedError] if crun, which these parameters choose, cannot limit the devices of
// containers here. It is for runtimes that always limit them.
func CheckDevices(by string, p part.Params) error {
	if p[Command] != CRun {
		return nil
	}
	path, err := exec.LookPath(CRun)
	if err != nil {
		return nil //nolint:nilerr // [Check] has looked for it
	}
	v2, err := cgroup.V2Alone()
	if err != nil {
		return err
	}
	locks, err := rights.LocksMemory()
	if err != nil {
		return err
	}
	return limitsDevices("make containers by "+by, version(path), v2, locks)
}

// limitsDevices is [CheckDevices], given the version of crun, whether cgroups of v2 are alone, and whether this process
// may raise the limit of locked memory.
func limitsDevices(what, said string, v2Alone, locks bool) error {
	if !v2Alone || locks || TooOld(what, CRun, said, lockless, "") == nil {
		return nil
	}
	return &linux.UnsupportedError{
		What: what, Missing: "CAP_SYS_RESOURCE, which crun before " + lockless + " needs with cgroup v2 alone",
		Err:  fmt.Errorf("found crun %s", dotted.FindString(said)),
		Hint: "choose " + Command + "=" + RunC + ", install a newer crun, or give nettoll CAP_SYS_RESOURCE",
	}
}

// hybrid is what crun before 1.9 says if a host shows it cgroups of both versions.
var hybrid = regexp.MustCompile(`cgroups in hybrid mode[^\n"]*`)

// mixed returns a [linux.UnsupportedError] in place of the error of a container for which crun needs cgroups of one
// version.
func mixed(container string, err error) error {
	said := hybrid.FindString(err.Error())
	if said == "" {
		return err
	}
	return &linux.UnsupportedError{
		What: "make container " + container, Missing: "cgroups of one version", Err: errors.New(said),
		Hint: "use " + Command + "=" + RunC + ", or unmount " + filepath.Join(cgroup.Dir, "unified"),
	}
}
