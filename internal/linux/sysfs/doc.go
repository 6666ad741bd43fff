// Package sysfs reads and writes the attributes of links below /sys/class/net. They are those of one network namespace,
// whatever /sys the process itself sees.
package sysfs
