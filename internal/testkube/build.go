package testkube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/process"
)

const (
	// version is the version of Kubernetes that cluster/go.mod names.
	version = "v1.35.4"
	// quiet is how long building takes before something is said of it.
	quiet = 2 * time.Second
	// kept is how long a binary that nobody uses is kept.
	kept = 30 * 24 * time.Hour
)

// Build builds the binary with all programs of a cluster (folder cluster), or finds the one of an earlier call in the
// user's cache directory. It returns its path. Building took four minutes on two CPUs, and takes a quarter of a
// minute if Go's build cache has the packages. Processes that build at a time wait for each other. Say is called with
// what takes more than two seconds.
func Build(ctx context.Context, say func(string)) (string, error) {
	path, err := build(ctx, say)
	if err != nil {
		return "", fmt.Errorf("build the programs of Kubernetes: %w", err)
	}
	return path, nil
}

func build(ctx context.Context, say func(string)) (string, error) {
	source, goVersion, err := source(ctx)
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintln(key, goVersion, version)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(key, "%s %d\n%s", name, len(text), text)
	}
	dir, err := cacheDir("bin")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("kube-%x", key.Sum(nil)[:8]))
	if used(path) {
		return path, nil
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // this gives the lock back
	if err := wait(ctx, lock, say); err != nil {
		return "", err
	}
	if used(path) {
		return path, nil // the other process has built it
	}
	if err := forget(dir); err != nil {
		return "", err
	}
	unfinished := path + ".new"
	defer os.Remove(unfinished)
	begun := time.AfterFunc(quiet, func() {
		say("building the programs of Kubernetes " + version + ": this takes up to ten minutes once")
	})
	defer begun.Stop()
	linking := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
	if err := compile(ctx, source, ".", unfinished, linking); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

// Program builds a command of this module, such as "./cmd/nettoll", as a static binary at a path.
func Program(ctx context.Context, pkg, path string) error {
	source, _, err := source(ctx)
	if err == nil {
		err = compile(ctx, filepath.Join(source, "..", "..", ".."), pkg, path, "-s -w")
	}
	if err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

// compile has go build make a static binary.
func compile(ctx context.Context, dir, pkg, path, linking string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", linking, "-o", path, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

// source returns the folder of the programs' module, which stands in the module of the working directory, and the
// version of Go.
func source(ctx context.Context) (dir, goVersion string, err error) {
	text, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/nettoll/nettoll").Output()
	if err == nil {
		dir = filepath.Join(string(bytes.TrimSpace(text)), "internal", "testkube", "cluster")
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

// cacheDir makes a directory in the user's cache directory.
func cacheDir(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "nettoll", "testkube", name)
	return dir, os.MkdirAll(dir, 0o700)
}

// wait takes the lock of a file.
func wait(ctx context.Context, lock *os.File, say func(string)) error {
	waiting := time.AfterFunc(quiet, func() { say("another process builds the programs of Kubernetes: waiting for it") })
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

// forget removes binaries that nobody has used for long.
func forget(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "kube-*"))
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
