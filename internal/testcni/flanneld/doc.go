// Package flanneld is the module in which Flannel's daemon is built. It names an older version of a part of
// Flannel for a cloud that nettoll does not start (tencentvpc): the Go module proxy lacks newer ones.
package flanneld
