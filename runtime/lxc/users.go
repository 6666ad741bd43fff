package lxc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// checkUsers returns a [linux.UnsupportedError] if LXC would refuse user namespaces. It leaves the mapping of users to
// newuidmap(1) and newgidmap(1) where those are installed, and they want the users to be reserved, also for root.
func checkUsers(p part.Params) error {
	if !p.On(runtime.UserNamespace) {
		return nil
	}
	for program, file := range map[string]string{"newuidmap": "/etc/subuid", "newgidmap": "/etc/subgid"} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !reserved(string(text)) {
			line := fmt.Sprintf("root:%d:%d", runtime.FirstUser, runtime.UserCount)
			return &linux.UnsupportedError{
				What: "give containers user namespaces by LXC", Missing: fmt.Sprintf("line %q in %s", line, file),
				Hint: "add it, or choose runtime oci",
			}
		}
	}
	return nil
}

// reserved reports whether a file of subuid(5) reserves the users of containers for root.
func reserved(text string) bool {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] != "root" && fields[0] != "0" {
			continue
		}
		first, err1 := strconv.Atoi(fields[1])
		count, err2 := strconv.Atoi(fields[2])
		if errors.Join(err1, err2) == nil && first <= runtime.FirstUser &&
			runtime.FirstUser+runtime.UserCount <= first+count {
			return true
		}
	}
	return false
}
