package userns

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Parent returns what this process's user is called in the user namespace around its own: in one made for an ordinary
// user, the number of that user.
func Parent() (int, error) {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0, fmt.Errorf("read who the user is outside: %w", err)
	}
	return parent(string(data), os.Geteuid())
}

// parent looks the user up in a map of IDs, whose lines are: the first inside, the first outside, how many
// (user_namespaces(7)).
func parent(uidMap string, uid int) (int, error) {
	for line := range strings.Lines(uidMap) {
		var n [3]int
		fields := strings.Fields(line)
		for i := range min(len(fields), len(n)) {
			n[i], _ = strconv.Atoi(fields[i]) // 0 of them where it is no number
		}
		if uid >= n[0] && uid < n[0]+n[2] {
			return n[1] + uid - n[0], nil
		}
	}
	return 0, fmt.Errorf("the user namespace has no user %d", uid)
}
