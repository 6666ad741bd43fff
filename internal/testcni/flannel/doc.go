// Package flannel is the module in which the CNI plugin flannel is built: as it was among the plugins of the CNI project
// last. The Go module proxy lacks its own module, github.com/flannel-io/cni-plugin.
package flannel
