//go:build !linux

package ipsec

import (
	"io"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported(what string) error { return &linux.UnsupportedError{What: what, Missing: "Linux"} }

// DropRules is not supported here.
func DropRules() error { return unsupported("delete routing rules") }

// CompareRoutes is not supported here.
func CompareRoutes() ([]linux.Difference, error) { return nil, unsupported("list routes") }

// InKernel is not supported here.
func InKernel(Cipher) error { return unsupported("encrypt by IPsec of the kernel") }

// Decapsulate is not supported here.
func Decapsulate(Config) (io.Closer, error) { return nil, InKernel(Cipher{}) }

// AddKernel is not supported here.
func AddKernel(string, Config) (int, error) { return 0, InKernel(Cipher{}) }

// RemoveKernel is not supported here.
func RemoveKernel(Config) error { return InKernel(Cipher{}) }

// CompareKernel is not supported here.
func CompareKernel(string, Config) ([]linux.Difference, error) { return nil, InKernel(Cipher{}) }

// RekeyKernel is not supported here.
func RekeyKernel(Config, Config, int) error { return InKernel(Cipher{}) }
