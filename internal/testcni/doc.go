// Package testcni has programs of container networks that tests start and that Debian lacks: Flannel's daemon flanneld
// and its CNI plugin, and the CNI plugin tap. They are built from the Go module proxy, each in a module of its own.
package testcni
