package procfs

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// InCgroups returns those of some processes that are in a control group whose path holds one of these names, such as
// the UID of a pod. The cgroup driver systemd writes "_" for "-" there
// (https://kubernetes.io/docs/setup/production-environment/container-runtimes/#cgroup-drivers); both are found.
// Processes whose group cannot be read are left out.
func InCgroups(pids []int, names []string) map[int]bool {
	all := slices.Clone(names)
	for _, n := range names {
		all = append(all, strings.ReplaceAll(n, "-", "_"))
	}
	in := map[int]bool{}
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		if err == nil && slices.ContainsFunc(all, func(n string) bool { return strings.Contains(string(text), n) }) {
			in[pid] = true
		}
	}
	return in
}
