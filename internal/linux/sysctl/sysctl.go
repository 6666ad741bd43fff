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

// Root is the directory of the variables, proc(5).
const Root = "/proc/sys"

// Path returns the file of a variable. The key is written as for sysctl(8), with dots for slashes and slashes for dots:
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

// Normal returns a value in the form of [Read]: its fields separated by single spaces.
func Normal(value string) string { return strings.Join(strings.Fields(value), " ") }

// Read returns the value of a variable, with its fields separated by single spaces. If this kernel does not have the
// variable, the error is fs.ErrNotExist.
func Read(key string) (string, error) {
	path, err := Path(key)
	if err != nil {
		return "", err
	}
	// One read(2) into a small buffer: a sysctl is not a regular file, and os.ReadFile would first ask for its size.
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

// Change sets a variable if it has another value, and returns the former value in the form of [Read]. A variable that
// already has the value need not be writable. If this kernel does not have the variable, the error is fs.ErrNotExist.
func Change(key, value string) (was string, err error) {
	path, err := Path(key)
	if err != nil {
		return "", err
	}
	// One open file for both: in a new namespace, opening the file is the slow part.
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
	// At offset 0: a write elsewhere is refused (Documentation/admin-guide/sysctl/kernel.rst, sysctl_writes_strict).
	_, err = f.WriteAt([]byte(value), 0)
	return was, unwritten(key, value, err)
}

// Write sets a variable. If this kernel does not have it, the error is fs.ErrNotExist.
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

// unwritten adds the variable and the value to the error of a write.
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

// reason removes the path, which the key already shows.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
