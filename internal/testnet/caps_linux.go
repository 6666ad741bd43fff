package testnet

import (
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// mayConfigure returns an error unless CAP_NET_ADMIN and CAP_SYS_ADMIN are effective, capabilities(7).
func mayConfigure() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for _, c := range []struct {
		bit  int
		name string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			return &linux.UnsupportedError{What: "make a private machine", Missing: c.name, Hint: "run the tests as root"}
		}
	}
	return nil
}
