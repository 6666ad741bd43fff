package mount

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// At lists the mounts at a directory and below it, in the order in which they were mounted.
func At(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts at %s: %w", dir, err)
	}
	defer f.Close()
	return read(f, dir)
}

// read reads mountinfo (proc_pid_mountinfo(5)), whose fifth field is the place of a mount.
func read(r io.Reader, dir string) (list []string, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if at := unescaped(fields[4]); at == dir || strings.HasPrefix(at, dir+"/") {
			list = append(list, at)
		}
	}
	return list, lines.Err()
}

// unescaped reads a field, in which blanks and backslashes are three octal digits after a backslash.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
