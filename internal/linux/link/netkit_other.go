//go:build !linux

package link

// AddNetkit is not supported here.
func (*Handle) AddNetkit(Netkit) (int, error) { return 0, unsupported() }
