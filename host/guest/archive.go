package guest

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The types of a file (st_mode, inode(7)).
const (
	isDir  = 0o040000
	isFile = 0o100000
	isLink = 0o120000
)

// An Archive is a file tree for the memory of a guest. The zero value is empty. Names have no leading slash; missing
// parents are made with a name. Files are read when the archive is written.
type Archive struct {
	entries map[string]entry
}

type entry struct {
	mode uint32
	from string // the file with the content, unless it is in data
	data []byte // the content of a file, or the target of a link
}

// Has reports whether the name exists.
func (a *Archive) Has(name string) bool {
	_, there := a.entries[clean(name)]
	return there
}

// Dir adds a directory with these permissions.
func (a *Archive) Dir(name string, mode fs.FileMode) { a.put(name, entry{mode: isDir | uint32(mode)}) }

// Data adds a file with these permissions.
func (a *Archive) Data(name string, mode fs.FileMode, content string) {
	a.put(name, entry{mode: isFile | uint32(mode.Perm()), data: []byte(content)})
}

// Link adds a symbolic link, unless the name already exists.
func (a *Archive) Link(name, target string) {
	if !a.Has(name) {
		a.put(name, entry{mode: isLink | 0o777, data: []byte(target)})
	}
}

// File adds a file of this machine.
func (a *Archive) File(name, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%q is no regular file", from)
	}
	a.put(name, entry{mode: isFile | uint32(info.Mode().Perm()), from: from})
	return nil
}

// Tree adds all regular files below a directory of this machine.
func (a *Archive) Tree(name, from string) error {
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		return a.File(path.Join(name, below), file)
	})
}

func (a *Archive) put(name string, e entry) {
	if a.entries == nil {
		a.entries = map[string]entry{}
	}
	name = clean(name)
	a.entries[name] = e
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if _, there := a.entries[parent]; there {
			break
		}
		a.entries[parent] = entry{mode: isDir | 0o755}
	}
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// Write writes the archive in the cpio format "newc", from which a kernel fills its first file system
// (Documentation/driver-api/early-userspace/buffer-format.rst). Several archives can follow each other.
func (a *Archive) Write(w io.Writer) error {
	out := &cpio{w: bufio.NewWriterSize(w, 1<<20)}
	for _, name := range slices.Sorted(maps.Keys(a.entries)) { // parents come first
		e := a.entries[name]
		if e.from == "" {
			if err := out.add(name, e.mode, int64(len(e.data)), strings.NewReader(string(e.data))); err != nil {
				return err
			}
			continue
		}
		if err := out.addFile(name, e); err != nil {
			return err
		}
	}
	if err := out.add("TRAILER!!!", 0, 0, strings.NewReader("")); err != nil {
		return err
	}
	return out.w.Flush()
}

type cpio struct {
	w   *bufio.Writer
	ino int
}

func (c *cpio) addFile(name string, e entry) error {
	f, err := os.Open(e.from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return c.add(name, e.mode, info.Size(), f)
}

// limit is the largest file in this format: its size has eight hexadecimal digits.
const limit = 1<<32 - 1

func (c *cpio) add(name string, mode uint32, size int64, content io.Reader) error {
	if size > limit {
		return fmt.Errorf("%q has %d bytes, and a file in the memory of a guest at most %d", name, size, int64(limit))
	}
	c.ino++
	// c_magic, c_ino, c_mode, c_uid, c_gid, c_nlink, c_mtime, c_filesize, c_maj, c_min, c_rmaj, c_rmin, c_namesize,
	// c_chksum.
	head, err := fmt.Fprintf(c.w, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.ino, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	if err != nil {
		return err
	}
	if err := c.pad(head); err != nil {
		return err
	}
	n, err := io.Copy(c.w, io.LimitReader(content, size))
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("%q had %d bytes and has %d now", name, size, n)
	}
	return c.pad(int(n % 4))
}

// pad adds zeros up to a multiple of four bytes.
func (c *cpio) pad(n int) error {
	_, err := c.w.Write(make([]byte, (4-n%4)%4))
	return err
}
