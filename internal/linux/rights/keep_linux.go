package rights

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Keep leaves the calling thread no capabilities but those of a set, for good. The caller has locked the thread, and
// lets it end: no other code may run with what is left.
func Keep(set uint64) error {
	all, err := All()
	if err != nil {
		return err
	}
	set &= all // nobody gets more than this process has
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(set), uint32(set>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}
