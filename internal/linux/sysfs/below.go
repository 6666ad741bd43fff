package sysfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Below returns the index of the device below a link, as the process's own /sys shows it, which must be that of its
// network namespace: the other end of a veth, or the device on which it stands. The index may be that of another
// namespace. A link that stands on none has its own (Documentation/ABI/testing/sysfs-class-net, iflink).
func Below(link string) (index int, err error) {
	text, err := os.ReadFile("/sys/class/net/" + link + "/iflink")
	if err != nil {
		return 0, fmt.Errorf("look for the device below %q: %w", link, err)
	}
	if index, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		return 0, fmt.Errorf("look for the device below %q: %w", link, err)
	}
	return index, nil
}
