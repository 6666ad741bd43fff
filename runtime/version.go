package runtime

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

// answered is how long a program may take to say its version.
const answered = 5 * time.Second

// versions are those of programs by their path, each asked once.
//
//nolint:gochecknoglobals // what is installed is the same for all
var versions sync.Map

// version returns the line in which a program says its version; "" if it says none.
func version(path string) string {
	said, _ := versions.LoadOrStore(path, sync.OnceValue(func() string {
		ctx, cancel := context.WithTimeout(context.Background(), answered)
		defer cancel()
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			return ""
		}
		first, _, _ := strings.Cut(string(out), "\n") // the other lines have versions of libraries
		return first
	}))
	return said.(func() string)()
}

// dotted is the number of a version.
var dotted = regexp.MustCompile(`\d+(\.\d+)+`)

// TooOld returns a [linux.UnsupportedError] if the version in a text, such as "Docker version 20.10.24+dfsg1", is older
// than the least one. A program that somebody has built without a version is not too old.
func TooOld(what, program, text, least, hint string) error {
	version := dotted.FindString(text)
	if version == "" || slices.Compare(numbers(version), numbers(least)) >= 0 {
		return nil
	}
	return &linux.UnsupportedError{
		What: what, Missing: fmt.Sprintf("%s %s or newer (found %s)", program, least, version), Hint: hint,
	}
}

func numbers(version string) (list []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // it has nothing but digits
		list = append(list, n)
	}
	return list
}

// recent returns an error if the program at a path is too old.
func (n Needed) recent(what, path string) error {
	if n.Least == "" {
		return nil
	}
	return TooOld(what, filepath.Base(n.Program), version(path), n.Least, "install a newer package "+n.Package)
}
