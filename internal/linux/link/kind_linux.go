package link

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// CheckKind says whether links of a kind that stand on others ("macvlan", "ipvlan") can be made, with a hint for where
// they cannot. It asks, in a namespace of its own, for one that stands on nothing: what the kernel says to that shows
// whether it knows the kind, for which it loads its module, and nothing is made. Without the right to ask, it is the
// kernel's configuration that counts.
func CheckKind(kind, hint string) error {
	missing := &linux.UnsupportedError{
		What: fmt.Sprintf("make links of type %q", kind), Missing: fmt.Sprintf("link type %q", kind), Hint: hint,
	}
	err := alone(func() error {
		// Not by the library, which would not ask.
		req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(kind))
		req.AddData(info)
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		missing.Err = err
		return missing
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.EPERM):
		if value, known := procfs.KernelOption("CONFIG_" + strings.ToUpper(kind)); known && value == "n" {
			return missing
		}
	}
	return nil
}

// alone calls f in a new namespace, which ends then.
func alone(f func() error) error {
	ns, err := netns.New(f)
	if err == nil {
		err = ns.Close()
	}
	return err
}
