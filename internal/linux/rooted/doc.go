// Package rooted finds files below a root directory that this process has open, such as those of the machine that the
// mounts of a host hide.
package rooted
