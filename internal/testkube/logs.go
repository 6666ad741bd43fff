package testkube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Logs returns the ends of the logs of all daemons, this many lines of each.
func (c *Cluster) Logs(lines int) string {
	paths, err := filepath.Glob(filepath.Join(c.dir, "*", "*.log"))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, path := range paths {
		fmt.Fprintf(&b, "== %s/%s\n%s\n", filepath.Base(filepath.Dir(path)), filepath.Base(path), tail(path, lines))
	}
	return b.String()
}
