package image

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
)

// Loader returns the path of the loader of shared libraries that a program names (PT_INTERP, elf(5)); "" if it needs
// none. An image of the program alone has no such file.
func Loader(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the program %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(p.Open())
		if err != nil {
			return "", fmt.Errorf("read the program %s: %w", path, err)
		}
		return string(bytes.TrimRight(name, "\x00")), nil
	}
	return "", nil
}
