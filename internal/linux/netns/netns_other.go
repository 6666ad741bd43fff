//go:build !linux

package netns

import (
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported(what string) error {
	return &linux.UnsupportedError{What: what, Missing: "Linux", Hint: "network namespaces exist only there"}
}

// Current is not supported here.
func Current() (*os.File, error) { return nil, unsupported("open own network namespace") }

// New is not supported here.
func New(func() error) (*os.File, error) { return nil, unsupported("make network namespace") }

// Do is not supported here.
func Do(int, func() error) error { return unsupported("enter network namespace") }

// Spend is not supported here.
func Spend(int, func() error) error { return unsupported("enter network namespace") }

// Here is not supported here.
func Here(int, func() error) error { return unsupported("enter network namespace") }

// Bind is not supported here.
func Bind(*os.File, string) error { return unsupported("bind network namespace") }

// Unbind is not supported here.
func Unbind(string) error { return unsupported("unbind network namespace") }

// Open is not supported here.
func Open(string) (*os.File, error) { return nil, unsupported("open network namespace") }

// Same is not supported here.
func Same(_, _ *os.File) (bool, error) { return false, unsupported("compare network namespaces") }
