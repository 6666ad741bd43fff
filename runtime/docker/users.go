package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/mount"
	"github.com/nettoll/nettoll/runtime"
)

// Users is a step that reserves users for containers with user namespaces where the daemon of a host looks for them
// (subuid(5), subgid(5)). The files of the machine stay as they are.
type Users struct{}

// remapped is the user and the group for whom they are reserved. Every Linux has it (Linux Standard Base 5.0, Core,
// 23.2), and for root the daemon switches user namespaces off.
const remapped = "daemon"

// covered is the directory that Users covers.
const covered = "/etc"

// usersDir is the directory of what is written there, below that of a host's programs.
const usersDir = "docker-users"

// Kind returns "docker-users".
func (Users) Kind() string { return "docker-users" }

// String describes the step in plain words.
func (Users) String() string {
	return fmt.Sprintf("users %d to %d for containers, in a cover over %s", runtime.FirstUser,
		runtime.FirstUser+runtime.UserCount-1, covered)
}

// files are what it writes.
func (Users) files() (names []string, text string) {
	return []string{covered + "/subuid", covered + "/subgid"},
		fmt.Sprintf("%s:%d:%d\n", remapped, runtime.FirstUser, runtime.UserCount)
}

// Apply covers the directory and writes the files.
func (u Users) Apply(_ context.Context, k *host.Kernel) error {
	at, err := k.RunDir(usersDir)
	if err != nil {
		return err
	}
	if err := mount.Cover(covered, filepath.Join(at, "cover"), filepath.Join(at, "work")); err != nil {
		return err
	}
	err = k.Keep(struct{}{})
	names, text := u.files()
	for _, name := range names {
		if err == nil {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
	}
	if err != nil {
		err = errors.Join(err, mount.Uncover(covered), mount.Remove(at))
	}
	return err
}

// Remove removes the cover.
func (Users) Remove(_ context.Context, k *host.Kernel) error {
	if kept, err := k.Kept(&struct{}{}); err != nil || !kept {
		return err
	}
	at, err := k.RunDir(usersDir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(at, "cover")); err == nil { // else it was removed
		if err := mount.Uncover(covered); err != nil {
			return err
		}
	}
	return mount.Remove(at)
}

// Verify wants the files to be as they were written.
func (u Users) Verify(*host.Kernel) error {
	drift := &host.DriftError{Step: u.String()}
	names, text := u.files()
	for _, name := range names {
		if got, err := os.ReadFile(name); err != nil {
			drift.Add(name, "present", err.Error())
		} else if string(got) != text {
			drift.Add(name, strconv.Quote(text), strconv.Quote(string(got)))
		}
	}
	if len(drift.Drifts) > 0 {
		return drift
	}
	return nil
}
