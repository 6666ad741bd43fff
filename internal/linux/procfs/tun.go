package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// TUN returns the names of the links that a process has opened through /dev/net/tun. It leaves out deleted links.
func TUN(pid int) (links []string, err error) {
	dir := fmt.Sprintf("/proc/%d/fdinfo", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the links of process %d: %w", pid, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was closed
		}
		if err != nil {
			return nil, fmt.Errorf("read the links of process %d: %w", pid, err)
		}
		for line := range strings.Lines(string(text)) {
			// drivers/net/tun.c, tun_chr_show_fdinfo
			if name, ok := strings.CutPrefix(line, "iff:"); ok && strings.TrimSpace(name) != "" {
				links = append(links, strings.TrimSpace(name))
			}
		}
	}
	return links, nil
}
