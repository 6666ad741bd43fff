package owned

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/userns"
)

// others are the permissions of everyone except the owner (inode(7)).
const others = 0o077

// An Error reports that a file does not belong to this user alone.
type Error struct {
	Path   string
	Reason string // "belongs to user 1000"
}

func (e *Error) Error() string { return fmt.Sprintf("%q %s", e.Path, e.Reason) }

// Mine reports whether the file at a path belongs to the effective user. It does not follow a symbolic link. A missing
// file is an error.
func Mine(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return mine(path, info) == nil, nil
}

// mine returns an [Error] if a file belongs to another user.
func mine(path string, info fs.FileInfo) error {
	if uid := owner(info); uid != os.Geteuid() {
		return &Error{path, fmt.Sprintf("belongs to user %d", uid)}
	}
	return nil
}

// Runtime returns the directory that a user's running programs share: "nettoll" below $XDG_RUNTIME_DIR, or else below
// its usual place, or else a directory below temp. It does not use a runtime directory of another user, as after su,
// but one of the other places.
func Runtime(uid int, runtimeDir, temp string) (dir string, refused bool) {
	below := func(dir string) string { return filepath.Join(dir, "nettoll") }
	owns := func(dir string) bool {
		is, err := Mine(dir)
		return is && err == nil
	}
	usual := filepath.Join("/run/user", strconv.Itoa(uid))
	switch {
	case uid == 0:
		usual = "/run"
	case !owns(usual):
		usual = ""
	}
	dir = filepath.Join(temp, "nettoll-"+strconv.Itoa(uid))
	if usual != "" {
		dir = below(usual)
	}
	if runtimeDir == "" {
		return dir, false
	}
	if _, err := os.Lstat(runtimeDir); err == nil && !owns(runtimeDir) {
		return dir, true
	}
	return below(runtimeDir), false
}

// A Dir is an open directory of the effective user that nobody else may read or change. Paths are relative to it, and
// its methods do not leave it.
type Dir struct {
	*os.Root
	path string
}

// Open opens a directory of the effective user that no other user can replace. Each directory above it belongs to root
// or to the user, and is sticky if others may write to it. Each symbolic link on the path belongs to root or to the
// user, and the last element is not a link. Otherwise the error is an [Error]; for a missing directory it is an
// [fs.ErrNotExist].
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := trusted(filepath.Dir(path), 0); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &Error{path, "is not a directory"}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return checked(root, path, info)
}

// Make opens a directory like [Open], and makes it and the directories above it if they are missing.
func Make(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := trusted(filepath.Dir(path), 0); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return Open(path)
}

// checked returns an open directory if it is the one that was checked, and belongs to the user alone.
func checked(root *os.Root, path string, seen fs.FileInfo) (_ *Dir, err error) {
	defer func() {
		if err != nil {
			_ = root.Close()
		}
	}()
	info, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, seen) {
		return nil, &Error{path, "was replaced while it was opened"}
	}
	if err := mine(path, info); err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, &Error{path, fmt.Sprintf("is writable by other users (mode %04o instead of 0700)", info.Mode().Perm())}
	}
	if info.Mode().Perm()&others != 0 {
		if err := root.Chmod(".", 0o700); err != nil {
			return nil, err
		}
	}
	return &Dir{root, path}, nil
}

// maxLinks is the largest number of symbolic links on a path, as in the kernel (MAXSYMLINKS, include/linux/namei.h).
const maxLinks = 40

// trusted returns an [Error] if a user other than root and this one could replace this directory. A missing directory
// is trusted.
func trusted(path string, links int) error {
	for _, at := range above(path) {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		uid := owner(info)
		// In a user namespace, the files of all other users, including root, belong to the overflow user
		// (user_namespaces(7)).
		if uid != 0 && uid != os.Geteuid() && (uid != overflow || !userns.Inside()) {
			return &Error{at, fmt.Sprintf("belongs to user %d", uid)}
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if links++; links > maxLinks {
				return &Error{at, "is one of too many symbolic links"}
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			if err := trusted(target, links); err != nil {
				return err
			}
		case info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
			return &Error{at, fmt.Sprintf("can be written to by every user (mode %04o without the sticky bit)",
				info.Mode().Perm())}
		case info.Mode().Perm()&0o020 != 0 && info.Mode()&fs.ModeSticky == 0 && strangers(group(info)):
			return &Error{at, fmt.Sprintf("can be written to by group %d (mode %04o without the sticky bit)", group(info),
				info.Mode().Perm())}
		}
	}
	return nil
}

// strangers says whether a group may have members that are neither root nor this user. Systems give each user a group
// that has no other member (useradd(8), USERGROUPS_ENAB).
func strangers(gid int) bool {
	return gid != 0 && gid != os.Getegid() && (gid != overflow || !userns.Inside())
}

// overflow is the user, and the group, that stands for those without a number here (/proc/sys/kernel/overflowuid).
const overflow = 65534

// above lists a path and all directories above it, from "/" on.
func above(path string) []string {
	list := []string{path}
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		list = append(list, path)
	}
	slices.Reverse(list)
	return list
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Dir opens a directory in this one, like [Open].
func (d *Dir) Dir(name string) (*Dir, error) {
	path := filepath.Join(d.path, name)
	info, err := d.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || strings.ContainsRune(name, filepath.Separator) {
		return nil, &Error{path, "is not a directory"}
	}
	root, err := d.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return checked(root, path, info)
}

// MakeDir opens a directory in this one, and makes it if it is missing.
func (d *Dir) MakeDir(name string) (*Dir, error) {
	if err := d.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return d.Dir(name)
}

// File opens a file in this directory, with flags and permissions as in [os.OpenFile]. It must be a regular file of the
// user, and not a symbolic link.
func (d *Dir) File(name string, flag int, perm fs.FileMode) (_ *os.File, err error) {
	path := filepath.Join(d.path, name)
	if info, err := d.Lstat(name); err == nil {
		if !info.Mode().IsRegular() {
			return nil, &Error{path, "is not a regular file"}
		}
		if err := mine(path, info); err != nil {
			return nil, err
		}
	}
	f, err := d.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return f, mine(path, info)
}

// Read returns the contents of a file in this directory.
func (d *Dir) Read(name string) ([]byte, error) {
	f, err := d.File(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Write replaces a file in this directory, completely or not at all.
func (d *Dir) Write(name string, data []byte) error {
	next := name + ".new"
	if err := d.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.File(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return d.Rename(next, name)
}
