// Package containerd is the runtime "containerd": containers of containerd, made by its client ctr.
//
// Each host has a daemon of its own, inside its namespaces, with its own data, state and socket. The machine's
// containerd is not touched. The network namespace of a container is made before, as with runtime netns. A worker is
// its only process.
package containerd
