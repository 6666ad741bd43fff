package testnet

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// settle is how long things may take to disappear: killed processes, and namespaces that the kernel removes in the
	// background.
	settle = 20 * time.Second
	// settleEnv is a variable with another time, for tests that leave something behind on purpose.
	settleEnv = "NETTOLL_TESTNET_SETTLE"
)

// wait checks repeatedly until everything is gone that was not there before, and returns what is left after the limit.
func wait(token string, before map[string]bool) ([]string, error) {
	limit := settle
	if s := os.Getenv(settleEnv); s != "" {
		var err error
		if limit, err = time.ParseDuration(s); err != nil {
			return nil, fmt.Errorf("%s: %w", settleEnv, err)
		}
	}
	deadline := time.Now().Add(limit)
	for {
		after, err := look(token)
		if err != nil {
			return nil, err
		}
		var leaks []string
		for what := range after {
			if !before[what] {
				leaks = append(leaks, what)
			}
		}
		if len(leaks) == 0 || time.Now().After(deadline) {
			slices.Sort(leaks)
			return leaks, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// look lists everything that belongs to this process and its descendants, one line each.
func look(token string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, f := range []func(map[string]bool) error{
		mounts, links, namespaces, temporary,
		func(found map[string]bool) error {
			return processes(token, found)
		},
	} {
		if err := f(found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// mounts lists the mounts of this mount namespace, the named network namespaces among them: proc(5), the fifth field is
// the place, and
func mounts(found map[string]bool) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		left, right, _ := strings.Cut(line, " - ")
		fields := strings.Fields(left)
		if len(fields) < 5 {
			continue
		}
		kind, _, _ := strings.Cut(right, " ")
		if kind == "nsfs" {
			found[fmt.Sprintf("namespace %s at %s", fields[3], fields[4])] = true
			continue
		}
		found[fmt.Sprintf("mount %s of %s at %s", fields[0], kind, fields[4])] = true
	}
	return nil
}

// links lists the links of this process's own namespace.
func links(found map[string]bool) error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, l := range list {
		found["link "+l.Name] = true
	}
	return nil
}

// namespaces lists the threads that are in a network namespace other than the first, and open files of other
// namespaces.
func namespaces(found map[string]bool) error {
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if ns, err := os.Readlink(t); err == nil && ns != own {
			found["thread in "+ns] = true
		}
	}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return err
	}
	for _, f := range files {
		if ns, err := os.Readlink(f); err == nil && strings.HasPrefix(ns, "net:") && ns != own {
			found["open file of namespace "+ns] = true
		}
	}
	return nil
}

// temporary lists the contents of the directory of temporary files.
func temporary(found map[string]bool) error {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		found["file "+filepath.Join(os.TempDir(), e.Name())] = true
	}
	return nil
}

// processes lists the children of this process, and other processes with its mark in their environment. Zombies count
// only as children: those of other processes wait for their own parents.
func processes(token string, found map[string]bool) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	self := os.Getpid()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == self {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // gone in the meantime
		}
		// PID (NAME) STATE PPID …; the name may contain any character.
		end := bytes.LastIndexByte(stat, ')')
		if end < 0 {
			continue
		}
		fields := strings.Fields(string(stat[end+1:]))
		if len(fields) < 2 {
			continue
		}
		child := fields[1] == strconv.Itoa(self)
		if !child {
			env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
			if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), mark+"="+token) {
				continue
			}
		}
		found[fmt.Sprintf("process %d (%s)", pid, command(pid))] = true
	}
	return nil
}

func command(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	line = bytes.TrimRight(line, "\x00")
	if len(line) == 0 {
		return "zombie"
	}
	return string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
}
