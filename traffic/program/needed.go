package program

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

// A Needed is a program that a part cannot do without.
type Needed struct {
	// By says who needs it: "driver sockperf", "kv with server redis".
	By string
	// Program is what is looked up in PATH, and Package what Debian calls the package that holds it, "" where nobody
	// knows.
	Program, Package string
	// AskVersion are the arguments with which it says its version; nil: --version.
	AskVersion []string
	// Unasked: it may be any program, and nobody knows what it does when it is asked for its version. It is looked up, and
	// not started.
	Unasked bool
}

// Locate returns the path of a program. Where it is not installed the error is a [linux.UnsupportedError] that names
// who needs it, and the package.
func (n Needed) Locate() (string, error) {
	path, err := exec.LookPath(n.Program)
	if errors.Is(err, exec.ErrNotFound) {
		hint := "install it, or name its path"
		if n.Package != "" {
			hint = "apt-get install " + n.Package
		}
		return "", &linux.UnsupportedError{What: "use " + n.By, Missing: fmt.Sprintf("program %q", n.Program), Hint: hint}
	}
	if err != nil {
		return "", fmt.Errorf("find program %q of %s: %w", n.Program, n.By, err)
	}
	return path, nil
}

// Installed is the value of a parameter that asks for a program if it is installed, and otherwise for another choice.
const Installed = "installed"

// Choose returns the check of a parameter that understands [Installed]: it becomes one value if the program is
// installed on this machine, and otherwise the other. Records have the one that it became.
func (n Needed) Choose(one, other string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s != Installed {
			return s, nil
		}
		if _, err := n.Locate(); err != nil {
			return other, nil //nolint:nilerr // that is the answer
		}
		return one, nil
	}
}

// versionLimit is how long a program may take to say its version.
const versionLimit = 5 * time.Second

// Version returns a program's version, as it says itself: "3.12"; "" where it is not to be asked. Where it is not
// installed the error is that of Locate.
func (n Needed) Version(ctx context.Context) (string, error) {
	path, err := n.Locate()
	if err != nil || n.Unasked {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	ask := n.AskVersion
	if ask == nil {
		ask = []string{"--version"}
	}
	out, err := exec.CommandContext(ctx, path, ask...).CombinedOutput()
	if v, found := version(out); found { // some say it and exit as if they had failed
		return v, nil
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", n.Program, err)
	}
	return "", fmt.Errorf("ask %s for its version: no version in %.100q", n.Program, out)
}

// version finds the first word that looks like a version: "sockperf, version 3.7-no.git", "iperf 3.12 (cJSON 1.7.15)",
// "nuttcp-6.1.2", "ping from iputils 20221126", "Redis server v=7.0.15", "nginx version: nginx/1.22.1".
func version(out []byte) (string, bool) {
	m := regexp.MustCompile(`(?:^|[\s/-])(?:v=?)?([0-9]+\.[0-9][^\s,;]*|20[0-9]{6})`).FindSubmatch(out)
	if m == nil {
		return "", false
	}
	return string(m[1]), true
}
