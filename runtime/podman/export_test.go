package podman

import "github.com/nettoll/nettoll/host"

// Noted is where Podman notes a network.
func Noted(k *host.Kernel, n Network) (string, error) { return n.noted(k) }
