package userns

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Parent returns the number of this process's user in the user namespace around its own. For a namespace made for an
// unprivileged user, it is the number of that user.
func Parent() (int, error) {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0, fmt.Errorf("read who the user is outside: %w", err)
	}
	return parent(string(data), os.Geteuid())
}

// Has reports whether the user namespace of this process has all these users and groups.
func Has(first, count int) (bool, error) {
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		data, err := os.ReadFile(file)
		if err != nil {
			return false, fmt.Errorf("read who is in the user namespace: %w", err)
		}
		if !has(string(data), first, count) {
			return false, nil
		}
	}
	return true, nil
}

// has reports whether one line of an ID map has all these IDs inside.
func has(idMap string, first, count int) bool {
	for line := range strings.Lines(idMap) {
		var from, outside, n int
		if _, err := fmt.Sscan(line, &from, &outside, &n); err == nil && from <= first && first+count <= from+n {
			return true
		}
	}
	return false
}

// parent looks up the user in an ID map, whose lines are: the first ID inside, the first ID outside, the count
// (user_namespaces(7)).
func parent(uidMap string, uid int) (int, error) {
	for line := range strings.Lines(uidMap) {
		var n [3]int
		fields := strings.Fields(line)
		for i := range min(len(fields), len(n)) {
			n[i], _ = strconv.Atoi(fields[i]) // 0 if it is not a number
		}
		if uid >= n[0] && uid < n[0]+n[2] {
			return n[1] + uid - n[0], nil
		}
	}
	return 0, fmt.Errorf("the user namespace has no user %d", uid)
}
