package testprogram

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/process"
)

const (
	// quiet is how long building takes before something is said of it.
	quiet = 2 * time.Second
	// kept is how long a binary that nobody uses is kept.
	kept = 30 * 24 * time.Hour
)

// A Program is a binary that is built in a Go module.
type Program struct {
	// Folder is the module, a folder of this tree: "internal/testkube/cluster". Package is what is built there.
	Folder, Package string
	// Cache is the folder of the user's cache directory, below nettoll/, that the binary is in; its name begins with File.
	Cache, File string
	// What is what it is, for people, and Minutes how long building takes at most.
	What, Minutes string
	// Linking are flags of the linker. Another Version is another binary.
	Linking, Version string
	// Cgo says that it has parts in C, which the C compiler of this machine compiles.
	Cgo bool
}

// Build builds the binary, or finds the one of an earlier call. It returns its path. Processes that build at a time
// wait for each other. Say is called with what takes more than two seconds.
func (p Program) Build(ctx context.Context, say func(string)) (string, error) {
	path, err := p.find(ctx, say)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.What, err)
	}
	return path, nil
}

func (p Program) find(ctx context.Context, say func(string)) (string, error) {
	source, goVersion, err := Source(ctx, p.Folder)
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintln(key, goVersion, p.Version)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if name == "main.go" && errors.Is(err, fs.ErrNotExist) {
			continue // it is a package of another module
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(key, "%s %d\n%s", name, len(text), text)
	}
	dir, err := CacheDir(p.Cache, "bin")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s%x", p.File, key.Sum(nil)[:8]))
	if used(path) {
		return path, nil
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // this gives the lock back
	if err := p.wait(ctx, lock, say); err != nil {
		return "", err
	}
	if used(path) {
		return path, nil // the other process has built it
	}
	if err := forget(dir, p.File); err != nil {
		return "", err
	}
	unfinished := path + ".new"
	defer os.Remove(unfinished)
	begun := time.AfterFunc(quiet, func() {
		say("building " + p.What + ": this takes up to " + p.Minutes + " once")
	})
	defer begun.Stop()
	if err := compile(ctx, source, p.Package, unfinished, p.Linking, p.Cgo); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

// Compile has go build make a static binary.
func Compile(ctx context.Context, dir, pkg, path, linking string) error {
	return compile(ctx, dir, pkg, path, linking, false)
}

func compile(ctx context.Context, dir, pkg, path, linking string, cgo bool) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", linking, "-o", path, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+map[bool]string{true: "1", false: "0"}[cgo], "GOOS=linux")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

// Source returns a folder of nettoll's module, which is that of the working directory, and the version of Go.
func Source(ctx context.Context, folder string) (dir, goVersion string, err error) {
	text, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/nettoll/nettoll").Output()
	if err == nil {
		dir = filepath.Join(string(bytes.TrimSpace(text)), folder)
		text, err = exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", "", fmt.Errorf("find the source (hint: run it in a clone of nettoll): %w", err)
	}
	return dir, strings.TrimSpace(string(text)), nil
}

// CacheDir makes a directory in the user's cache directory, below nettoll/.
func CacheDir(of, name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "nettoll", of, name)
	return dir, os.MkdirAll(dir, 0o700)
}

// wait takes the lock of a file.
func (p Program) wait(ctx context.Context, lock *os.File, say func(string)) error {
	waiting := time.AfterFunc(quiet, func() { say("another process builds programs: waiting for it") })
	defer waiting.Stop()
	for {
		if mine, err := process.Lock(lock); mine || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// used reports whether a binary exists, and marks it as used now.
func used(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// forget removes binaries whose names begin so and that nobody has used for long.
func forget(dir, file string) error {
	paths, err := filepath.Glob(filepath.Join(dir, file+"*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > kept {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
