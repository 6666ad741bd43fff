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

// A programs is a Go module of programs that are linked into one binary, and a folder of this package.
type programs struct {
	folder  string
	file    string // begins the name of the binary
	what    string
	linking string
	minutes string // how long building takes at most
}

func kubernetes() programs {
	return programs{
		folder: "cluster", file: "kube-", what: "the programs of Kubernetes " + version, minutes: "ten minutes",
		linking: "-s -w -X k8s.io/component-base/version.gitVersion=" + version,
	}
}

// Build builds the binary with all programs of a cluster (folder cluster), or finds the one of an earlier call in the
// user's cache directory. It returns its path. Building took four minutes on two CPUs, and takes a quarter of a
// minute if Go's build cache has the packages. Processes that build at a time wait for each other. Say is called with
// what takes more than two seconds.
func Build(ctx context.Context, say func(string)) (string, error) {
	return kubernetes().build(ctx, say)
}

func (p programs) build(ctx context.Context, say func(string)) (string, error) {
	path, err := p.find(ctx, say)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.what, err)
	}
	return path, nil
}

func (p programs) find(ctx context.Context, say func(string)) (string, error) {
	source, goVersion, err := source(ctx, p.folder)
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
	path := filepath.Join(dir, fmt.Sprintf("%s%x", p.file, key.Sum(nil)[:8]))
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
	if err := forget(dir, p.file); err != nil {
		return "", err
	}
	unfinished := path + ".new"
	defer os.Remove(unfinished)
	begun := time.AfterFunc(quiet, func() {
		say("building " + p.what + ": this takes up to " + p.minutes + " once")
	})
	defer begun.Stop()
	if err := compile(ctx, source, ".", unfinished, p.linking); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

// Program builds a command of this module, such as "./cmd/nettoll", as a static binary at a path.
func Program(ctx context.Context, pkg, path string) error {
	source, _, err := source(ctx, "../..")
	if err == nil {
		err = compile(ctx, source, pkg, path, "-s -w")
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

// source returns a folder of this package, whose source is in the module of the working directory, and the version of
// Go.
func source(ctx context.Context, folder string) (dir, goVersion string, err error) {
	text, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/nettoll/nettoll").Output()
	if err == nil {
		dir = filepath.Join(string(bytes.TrimSpace(text)), "internal", "testkube", folder)
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
func (p programs) wait(ctx context.Context, lock *os.File, say func(string)) error {
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
