package runtime

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"

	"github.com/nettoll/nettoll/internal/linux"
)

// static returns a [linux.UnsupportedError] if the program at this path needs a loader of shared libraries: containers
// have no file but the program.
func static(what, path string) error {
	loader, err := loaderOf(path)
	if err != nil || loader == "" {
		return err
	}
	return &linux.UnsupportedError{
		What: what, Missing: fmt.Sprintf("nettoll without shared libraries: this one needs %s, and containers have no file "+
			"but nettoll", loader),
		Hint: "build it with make build, which sets CGO_ENABLED=0",
	}
}

// loaderOf returns the path of the loader that a program names (PT_INTERP, elf(5)); "" if it needs none.
func loaderOf(path string) (string, error) {
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
