//go:build !linux

package macsec

import "github.com/nettoll/nettoll/internal/linux"

// InKernel is not supported here.
func InKernel(Cipher) error {
	return &linux.UnsupportedError{What: "make links of type \"macsec\"", Missing: "Linux"}
}

// Add is not supported here.
func Add(string, Config) (int, error) { return 0, InKernel(Cipher{}) }

// Compare is not supported here.
func Compare(string, Config) ([]linux.Difference, error) { return nil, InKernel(Cipher{}) }
