package image

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// Whole returns a program of this machine with the shared libraries that it needs and their loader, at the paths where
// they are here. The loader itself says which (ld.so(8), --list); it does not start the program. Like is a program that
// is in the image already: both have to be for machines of one kind.
func Whole(ctx context.Context, program, like string) ([]File, error) {
	if err := alike(program, like); err != nil {
		return nil, err
	}
	paths := []string{program}
	loader, err := Loader(program)
	if err != nil {
		return nil, err
	}
	if loader != "" {
		out, err := exec.CommandContext(ctx, loader, "--list", program).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("list the shared libraries of %s: %s --list: %w: %s", program, loader, err,
				bytes.TrimSpace(out))
		}
		libraries, err := listed(string(out))
		if err != nil {
			return nil, fmt.Errorf("list the shared libraries of %s: %w", program, err)
		}
		paths = append(append(paths, loader), libraries...)
	}
	files := make([]File, 0, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: strings.TrimPrefix(path, "/"), Mode: 0o755, Data: data})
	}
	return files, nil
}

// alike returns an error unless two programs are for machines of one kind.
func alike(program, like string) error {
	var machines [2]elf.Machine
	for i, path := range []string{program, like} {
		f, err := elf.Open(path)
		if _, is := errors.AsType[*elf.FormatError](err); is || errors.Is(err, io.EOF) {
			return fmt.Errorf("%s is no program of machine code but perhaps a script, whose interpreter the image lacks", path)
		}
		if err != nil {
			return err
		}
		machines[i] = f.Machine
		if err := f.Close(); err != nil {
			return err
		}
	}
	if machines[0] != machines[1] {
		return fmt.Errorf("%s is for another machine (%v) than %s (%v)", program, machines[0], like, machines[1])
	}
	return nil
}

// listed reads the paths of libraries in what a loader lists: "name => path (address)", or "path (address)". A name
// without a path is the kernel's own library (vdso(7)).
func listed(text string) (paths []string, err error) {
	for line := range strings.Lines(text) {
		name, path, found := strings.Cut(strings.TrimSpace(line), " => ")
		if !found {
			path = name
		}
		if path == "not found" {
			return nil, fmt.Errorf("%s is not found", name)
		}
		path, _, _ = strings.Cut(path, " (")
		if filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
