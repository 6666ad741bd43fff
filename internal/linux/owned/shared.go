package owned

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Replace writes a file of a directory to which others may write. The name may have a directory before it, "logs/a",
// which is made if it is missing. The file is written under a new name and takes the place of what had its own name, so
// a symbolic link there is replaced and not followed. It is replaced completely or not at all. An error about something
// that is in the place of the directory is an [Error].
func Replace(dir, name string, write func(io.Writer) error) error {
	root, err := below(dir, filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	return replace(root, filepath.Base(name), write)
}

// Append adds text to the end of a file, like [Replace]. What is not a regular file of this user is replaced.
func Append(dir, name, text string) error {
	root, err := below(dir, filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	at, name := filepath.Join(dir, filepath.Dir(name)), filepath.Base(name)
	before, err := (&Dir{root, at}).Read(name)
	if _, other := errors.AsType[*Error](err); err != nil && !other && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return replace(root, name, func(w io.Writer) error {
		_, err := w.Write(append(before, text...))
		return err
	})
}

// below opens a directory in another one, "." for that one itself. It makes it if it is missing, and follows no link.
func below(dir, name string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil || name == "." {
		return root, err
	}
	defer root.Close()
	if err := root.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	if !info.IsDir() {
		return nil, &Error{path, "is not a directory"}
	}
	in, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := in.Stat("."); err != nil || !os.SameFile(now, info) {
		return nil, errors.Join(&Error{path, "was replaced while it was opened"}, err, in.Close())
	}
	return in, nil
}

// replace replaces a file of a directory.
func replace(root *os.Root, name string, write func(io.Writer) error) error {
	next := fmt.Sprintf(".nettoll-%x", rand.Uint64())
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = root.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(next))
	}
	return nil
}
