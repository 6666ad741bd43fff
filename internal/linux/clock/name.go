package clock

import (
	"os"
	"strings"
)

// Name identifies the clock that [Now] reads: processes with the same name read the same one, on one machine and in one
// time namespace, which shifts it (time_namespaces(7)). It is "" if that is not known.
func Name() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		namespace = "" // the kernel has none (before 5.6)
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
}
