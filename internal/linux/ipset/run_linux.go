package ipset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Create makes sets with their entries. If one of them already exists, it returns an error and makes nothing. If the
// kernel lacks something, the error is a [linux.UnsupportedError].
func Create(sets ...Set) error {
	there, err := names()
	if err != nil {
		return explain(fmt.Errorf("make sets: %w", err))
	}
	var own []string
	for _, s := range sets {
		if slices.Contains(there, s.Name) {
			return fmt.Errorf("make set %s: %w", s.Name, fs.ErrExist)
		}
		own = append(own, s.Name)
	}
	if _, err := run(text(sets), "restore"); err != nil {
		return errors.Join(explain(fmt.Errorf("make sets: %w", err)), Destroy(own...))
	}
	return nil
}

// Change adds and deletes entries. Lines are in the format of "ipset restore": "add SET ENTRY", "del SET ENTRY".
func Change(lines []string) error {
	if _, err := run(strings.Join(lines, "\n")+"\n", "restore"); err != nil {
		return fmt.Errorf("change sets: %w", err)
	}
	return nil
}

// Compare reads a set and returns the differences.
func Compare(want Set) ([]linux.Difference, error) {
	there, err := names()
	if err != nil {
		return nil, fmt.Errorf("read set %s: %w", want.Name, err)
	}
	if !slices.Contains(there, want.Name) {
		return []linux.Difference{{What: "set " + want.Name, Want: linux.Present, Got: linux.Absent}}, nil
	}
	out, err := run("", "save", want.Name)
	if err != nil {
		return nil, fmt.Errorf("read set %s: %w", want.Name, err)
	}
	kind, entries, err := Parse(bytes.NewReader(out), want.Name)
	if err != nil {
		return nil, fmt.Errorf("read set %s: %w", want.Name, err)
	}
	return want.compare(kind, entries), nil
}

// Memory returns the memory of a set with all its entries, in bytes: the "Size in memory" of ipset(8), plus its hash
// table.
func Memory(set string) (int64, error) {
	out, err := run("", "list", "-terse", set)
	if err == nil {
		var n int64
		if n, err = parseMemory(string(out)); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("read the memory of set %s: %w", set, err)
}

// release is how long a removed rule may still hold its set: nf_tables frees rules in the background
// (nf_tables_trans_destroy_work, net/netfilter/nf_tables_api.c).
const release = 2 * time.Second

// Destroy removes sets that no rule uses any more. A set that is already gone is not an error.
func Destroy(sets ...string) error {
	there, err := names()
	if err != nil {
		return fmt.Errorf("destroy sets: %w", err)
	}
	deadline := time.Now().Add(release)
	for _, s := range sets {
		if !slices.Contains(there, s) {
			continue
		}
		_, err := run("", "destroy", s)
		for err != nil && strings.Contains(err.Error(), "in use") && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
			_, err = run("", "destroy", s)
		}
		if err != nil {
			return fmt.Errorf("destroy set %s: %w", s, err)
		}
	}
	return nil
}

// Version returns the version that the program prints, "ipset v7.17".
func Version() (string, error) {
	out, err := run("", "version")
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
	return version, err
}

// names lists the sets of the namespace.
func names() ([]string, error) {
	out, err := run("", "list", "-name")
	return strings.Fields(string(out)), err
}

// run runs the program until it ends and returns its output. The calling thread must be locked.
func run(input string, args ...string) ([]byte, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	cmd := exec.Command("ipset", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := process.RunHere(cmd, process.Options{}); err != nil {
		return nil, fmt.Errorf("ipset %s: %w: %s", args[0], err,
			strings.ReplaceAll(strings.TrimSpace(stderr.String()), "\n", "; "))
	}
	return stdout.Bytes(), nil
}

// explain turns the program's error about a kernel without sets into a [linux.UnsupportedError].
func explain(err error) error {
	said := err.Error()
	switch {
	case errors.Is(err, errors.ErrUnsupported): // the program did not run
		return err
	case strings.Contains(said, "set type not supported"):
		return &linux.UnsupportedError{
			What: "make sets", Missing: "sets of the type " + Type + " (CONFIG_IP_SET_HASH_IPPORTIP)",
			Hint: "load the kernel's module for it, or use the filter nftables", Err: err,
		}
	case strings.Contains(said, "Cannot open session"), strings.Contains(said, "Invalid argument"),
		strings.Contains(said, "not supported"):
		return &linux.UnsupportedError{
			What: "make sets", Missing: "sets of addresses (CONFIG_IP_SET)",
			Hint: "load the kernel's module ip_set, or use the filter nftables", Err: err,
		}
	case strings.Contains(said, "Operation not permitted"):
		return &linux.UnsupportedError{What: "make sets", Missing: "CAP_NET_ADMIN", Hint: "run it as root", Err: err}
	}
	return err
}
