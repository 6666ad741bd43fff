package dump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// most limits how often a listing is repeated.
const most = 100

// Whole lists something, again as long as something changed meanwhile. The kernel marks such a listing
// (NLM_F_DUMP_INTR, include/uapi/linux/netlink.h). It may be because it is removing namespaces in the background.
func Whole[T any](list func() ([]T, error)) (found []T, err error) {
	for range most {
		if found, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}
