package owned

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// stranger is a user other than the one that runs the tests.
const stranger = 4242

// place returns a directory that this user may use, below trusted ones.
func place(t *testing.T) string {
	t.Helper()
	testnet.Root(t)
	return t.TempDir()
}

func need(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A directory that somebody else made, or could make, is not used.
func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(dir string) error // makes dir/labs
		want  string
	}{
		"a stranger's directory": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/labs", 0o700), os.Chown(dir+"/labs", stranger, stranger))
		}, "belongs to user 4242"},
		"a stranger's directory above": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/labs", 0o700), os.Chown(dir, stranger, stranger))
		}, "belongs to user 4242"},
		"a directory above that everyone may write to": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/labs", 0o700), os.Chmod(dir, 0o777))
		}, "without the sticky bit"},
		"a directory above that a group of strangers may write to": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/labs", 0o700), os.Chown(dir, 0, stranger), os.Chmod(dir, 0o775))
		}, "can be written to by group 4242 (mode 0775 without the sticky bit)"},
		"one that a group may write to": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/labs", 0o700), os.Chmod(dir+"/labs", 0o770))
		}, "is writable by other users (mode 0770 instead of 0700)"},
		"a link": {func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/real", 0o700), os.Symlink(dir+"/real", dir+"/labs"))
		}, "is not a directory"},
		"a file": {func(dir string) error { return os.WriteFile(dir+"/labs", nil, 0o600) }, "is not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			need(t, c.plant(dir))
			for _, open := range []func(string) (*Dir, error){Open, Make} {
				d, err := open(filepath.Join(dir, "labs"))
				if err == nil {
					_ = d.Close()
				}
				if _, refused := errors.AsType[*Error](err); err == nil || !refused && name != "a file" || refused &&
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			}
		})
	}
}

// One's own group may write to a directory above.
func TestOpenOwnGroup(t *testing.T) {
	dir := place(t)
	need(t, os.Mkdir(dir+"/labs", 0o700), os.Chown(dir, os.Geteuid(), os.Getegid()), os.Chmod(dir, 0o775))
	d, err := Open(filepath.Join(dir, "labs"))
	if err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
}

// A stranger's link on the path is not followed, even to a directory of the user; root's is.
func TestLinksOnTheWay(t *testing.T) {
	dir := place(t)
	link := filepath.Join(dir, "link")
	need(t, os.MkdirAll(filepath.Join(dir, "real", "labs"), 0o700), os.Symlink("real", link))
	d, err := Open(filepath.Join(link, "labs"))
	if err != nil {
		t.Fatalf("behind a link of root's: %v", err)
	}
	_ = d.Close()
	need(t, os.Lchown(link, stranger, stranger))
	if _, err := Open(filepath.Join(link, "labs")); err == nil || !strings.Contains(err.Error(), "belongs to user 4242") {
		t.Errorf("behind a stranger's link: %v", err)
	}
	need(t, os.Remove(link), os.Symlink("link", link))
	if _, err := Open(filepath.Join(link, "labs")); err == nil ||
		!strings.Contains(err.Error(), "too many symbolic links") {
		t.Errorf("behind a link to itself: %v", err)
	}
}

// Open removes the permissions of other users.
func TestOpenCloses(t *testing.T) {
	dir := filepath.Join(place(t), "labs")
	need(t, os.Mkdir(dir, 0o755))
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Open(dir + "/nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// A file is regular and belongs to the user, and reading and writing stay in the directory.
func TestFile(t *testing.T) {
	above := place(t)
	victim := filepath.Join(above, "victim")
	need(t, os.WriteFile(victim, []byte("precious"), 0o600))
	d, err := Make(filepath.Join(above, "labs", "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	need(t, d.Write("mine", []byte("one")), d.Write("mine", []byte("two")))
	if data, err := d.Read("mine"); err != nil || string(data) != "two" {
		t.Errorf("%q, %v", data, err)
	}
	for name, plant := range map[string]func(string) error{
		"link":     func(at string) error { return os.Symlink(victim, at) },
		"own link": func(at string) error { return os.Symlink("mine", at) },
		"fifo":     func(at string) error { return unix.Mkfifo(at, 0o600) },
		"stranger": func(at string) error {
			return errors.Join(os.WriteFile(at, []byte("not mine"), 0o666), os.Chown(at, stranger, stranger))
		},
	} {
		need(t, plant(filepath.Join(d.Path(), name)))
		if data, err := d.Read(name); err == nil {
			t.Errorf("%s: %q was read", name, data)
		}
		if f, err := d.File(name, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
			t.Errorf("%s: was opened", name)
			_ = f.Close()
		}
	}
	need(t, os.Symlink(victim, filepath.Join(d.Path(), "mine2.new")), d.Write("mine2", []byte("new")))
	if data, err := os.ReadFile(victim); err != nil || string(data) != "precious" {
		t.Errorf("the victim is %q, %v", data, err)
	}
	if _, err := d.Dir("link"); err == nil {
		t.Error("a link was taken for a directory")
	}
}
