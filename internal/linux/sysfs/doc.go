// Package sysfs reads and writes the attributes of links below /sys/class/net, for one network namespace, independently
// of the /sys of the process.
package sysfs
