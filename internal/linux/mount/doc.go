// Package mount lists mounts of a mount namespace and takes them away.
package mount
