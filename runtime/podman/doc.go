// Package podman is the runtime "podman": containers of Podman, which has no daemon.
//
// Each host has images and state of its own. Directories in which Podman writes whatever its settings say are covered
// by an overlay, in the mounts of the host alone. The network namespace of a container is made before, as with runtime
// netns, unless Podman is to join it to a network of its own: then Podman makes the namespace, and netavark the link. A
// worker is its only process, and conmon stays beside it as its monitor.
package podman
