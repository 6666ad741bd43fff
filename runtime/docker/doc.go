// Package docker is the runtime "docker": containers of Docker.
//
// Each host has a daemon of its own, inside its namespaces, with its own data, state and socket. The machine's Docker
// is not touched. A container has the network namespace that Docker makes for "--network none", and nettoll's network
// joins it, or one that Docker builds. A worker is its only process.
package docker
