// Package lxc is the runtime "lxc": containers that LXC makes, as in the papers that measured LXC.
//
// The root file system of a container holds nothing but this program, which is a worker. lxc-start stays beside it, as
// its monitor. The network namespace is made before, as with runtime netns, and LXC joins it
// (lxc.namespace.share.net), so networks build it alike.
package lxc
