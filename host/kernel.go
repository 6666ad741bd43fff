package host

import (
	"fmt"
	"os"
)

// A Kernel is the kernel of one host as the steps of plans see it: the namespaces they name, with a netlink socket for
// each that stays open. It is made by the agent of the host. Its methods may be called from several goroutines.
type Kernel struct {
	config KernelConfig
}

// A KernelConfig says where a Kernel finds namespaces.
type KernelConfig struct {
	// Dir is the directory in which namespaces are bind-mounted; "" is /run/netns.
	Dir string
	// Files are the inherited files by name, as passed by --file. Those called "netns:NAME" are the
	// namespaces "@NAME". They stay the caller's.
	Files map[string]*os.File
}

// NewKernel returns a Kernel whose own namespace is that of the calling thread.
func NewKernel(c KernelConfig) (*Kernel, error) {
	return &Kernel{config: c}, nil
}

// Close closes what the Kernel has opened. It removes nothing. It is idempotent.
func (k *Kernel) Close() error { return nil }

// Do calls f on a thread inside the namespace ns. What f starts on other goroutines is not inside.
func (k *Kernel) Do(ns string, f func() error) error { return fmt.Errorf("not yet") }

// Open opens the namespace ns. The file is the caller's to close.
func (k *Kernel) Open(ns string) (*os.File, error) { return nil, fmt.Errorf("not yet") }
