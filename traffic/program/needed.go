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

// A Needed is a program that a part requires.
type Needed struct {
	// By names what requires it: "driver sockperf", "kv with server redis".
	By string `json:"by"`
	// Program is looked up in PATH. Package is the name of its Debian package, "" if unknown.
	Program string `json:"program"`
	Package string `json:"package,omitempty"`
	// AskVersion are the arguments that make it print its version; nil: --version.
	AskVersion []string `json:"ask_version,omitempty"`
	// Unasked says that it is looked up, but not started for its version: it may be any program, and could do anything,
	// or it prints none.
	Unasked bool `json:"unasked,omitempty"`
}

// NotInstalled returns the error for a program that is not installed. It names what requires it, and the package.
func (n Needed) NotInstalled() error {
	hint := "install it, or name its path"
	if n.Package != "" {
		hint = "apt-get install " + n.Package
	}
	return &linux.UnsupportedError{What: "use " + n.By, Missing: fmt.Sprintf("program %q", n.Program), Hint: hint}
}

// Locate returns the path of a program on the machine of this process. If it is not installed, the error is that of
// [Needed.NotInstalled], a [linux.UnsupportedError].
func (n Needed) Locate() (string, error) {
	path, err := exec.LookPath(n.Program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", n.NotInstalled()
	}
	if err != nil {
		return "", fmt.Errorf("find program %q of %s: %w", n.Program, n.By, err)
	}
	return path, nil
}

// Installed is the value of a parameter that selects a program if it is installed, and otherwise another choice.
const Installed = "installed"

// Choose returns the check of a parameter that accepts [Installed]: it becomes one if the program is installed on this
// machine, and otherwise other. Records hold the resulting value.
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

// versionLimit is how long a program may take to print its version.
const versionLimit = 5 * time.Second

// Version returns the version that a program prints: "3.12"; "" if it must not be started for that. If it is not
// installed, the error is that of Locate.
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
	if v, found := version(out); found { // some print it and exit with an error
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
