// Package minimal makes containers with as few requests to the kernel as possible. The set-up of a host is compared
// with this.
package minimal
