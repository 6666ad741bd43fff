package sysctl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Root is where the variables are, proc(5).
const Root = "/proc/sys"

// Path returns the file of a variable. The key is written as by sysctl(8): with dots for slashes and slashes for dots,
// "net.ipv4.conf.eth0/100.rp_filter".
func Path(key string) (string, error) {
	path := strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, key)
	for element := range strings.SplitSeq(path, "/") {
		if element == "" || element == "." || element == ".." || strings.ContainsRune(element, 0) {
			return "", fmt.Errorf("invalid sysctl name %q (valid: such as net.ipv4.ip_forward)", key)
		}
	}
	return Root + "/" + path, nil
}

// Normal returns a value as [Read] does: its fields with one space between them.
func Normal(value string) string { return strings.Join(strings.Fields(value), " ") }

// Read returns the value of a variable, its fields with one space between them. A variable that this kernel does not
// have is fs.ErrNotExist.
func Read(key string) (string, error) {
	path, err := Path(key)
	if err != nil {
		return "", err
	}
	// One read(2) of a small buffer: a sysctl is no regular file, and os.ReadFile would ask for its size first.
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read sysctl %q: %w", key, reason(err))
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		return "", fmt.Errorf("read sysctl %q: %w", key, reason(err))
	}
	return Normal(b.String()), nil
}

// Change sets a variable that has another value, and returns the one it had, as [Read] does. One that has the value
// already need not be writable, and one that this kernel does not have is fs.ErrNotExist.
func Change(key, value string) (was string, err error) {
	path, err := Path(key)
	if err != nil {
		return "", err
	}
	// One file for both: in a new namespace it is the way to the file that takes the time.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) {
		if was, err = Read(key); err != nil || was == Normal(value) {
			return was, err
		}
		return was, Write(key, value)
	}
	if err != nil {
		return "", fmt.Errorf("read sysctl %q: %w", key, reason(err))
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		return "", fmt.Errorf("read sysctl %q: %w", key, reason(err))
	}
	if was = Normal(b.String()); was == Normal(value) {
		return was, nil
	}
	// From its beginning: a write elsewhere is refused (Documentation/admin-guide/sysctl/kernel.rst,
	// sysctl_writes_strict).
	_, err = f.WriteAt([]byte(value), 0)
	return was, unwritten(key, value, err)
}

// Write sets a variable. One that this kernel does not have is fs.ErrNotExist.
func Write(key, value string) error {
	path, err := Path(key)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return unwritten(key, value, err)
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return unwritten(key, value, err)
}

// unwritten says what a failed write was about.
func unwritten(key, value string, err error) error {
	if err == nil {
		return nil
	}
	err = reason(err)
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("write %q to sysctl %q: %w (hint: the kernel does not take this value, or not from this network "+
			"namespace)", value, key, err)
	}
	return fmt.Errorf("write %q to sysctl %q: %w", value, key, err)
}

// reason drops the path, which the key says already.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
