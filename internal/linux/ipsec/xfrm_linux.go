package ipsec

import (
	"io"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// InKernel says whether the kernel can encrypt so, nil or what is missing.
func InKernel(Cipher) error {
	return link.CheckKind("xfrm", "load the kernel modules xfrm_interface, esp4 and esp6, or use impl=strongswan")
}

// Decapsulate is TODO.
func Decapsulate() (io.Closer, error) { return nil, InKernel(Cipher{}) }

// AddKernel is TODO.
func AddKernel(string, Config) (int, error) { return 0, InKernel(Cipher{}) }

// RemoveKernel is TODO.
func RemoveKernel() error { return nil }

// CompareKernel is TODO.
func CompareKernel(string, Config) ([]linux.Difference, error) { return nil, nil }
