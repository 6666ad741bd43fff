//go:build !linux

package iptables

import "github.com/nettoll/nettoll/internal/linux"

func unsupported() error {
	return &linux.UnsupportedError{What: "use iptables", Missing: "Linux", Hint: "iptables exists only there"}
}

// Load is not supported here.
func (Tool) Load(Table) error { return unsupported() }

// Change is not supported here.
func (Tool) Change([]string) error { return unsupported() }

// Compare is not supported here.
func (Tool) Compare(Table) ([]linux.Difference, error) { return nil, unsupported() }

// Unload is not supported here.
func (Tool) Unload() error { return unsupported() }

// Memory is not supported here.
func (Tool) Memory() (int64, error) { return 0, unsupported() }

// Contents is not supported here.
func Contents() (map[string]map[string]int, error) { return nil, unsupported() }

// Clear is not supported here.
func Clear(string) (bool, error) { return false, unsupported() }

// Counters is not supported here.
func (Tool) Counters(string) (Counters, error) { return Counters{}, unsupported() }

// Version is not supported here.
func (Tool) Version() (string, error) { return "", unsupported() }
