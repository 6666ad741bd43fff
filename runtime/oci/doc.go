// Package oci is the runtime "oci": containers that runc or crun makes from a bundle (OCI Runtime Specification 1.0).
//
// The root file system of a container holds nothing but this program. A worker is its only process: it inherits the
// files of the lab, and gets its calls by standard input. It has the namespaces, the capabilities and the devices of a
// container, and its control groups in every hierarchy that is mounted. Its network namespace is made before, as with
// runtime netns, so that networks build it alike.
package oci
