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

// CheckKind returns an error with a hint if links of a kind that need a link below ("macvlan", "ipvlan") cannot be
// made. In a namespace of its own, it asks for one without a link below. The kernel's answer shows whether it knows the
// kind, for which it loads its module; nothing is made. Without the privilege to ask, CheckKind reads the kernel's
// configuration.
func CheckKind(kind, hint string) error {
	missing := &linux.UnsupportedError{
		What: fmt.Sprintf("make links of type %q", kind), Missing: fmt.Sprintf("link type %q", kind), Hint: hint,
	}
	err := alone(func() error {
		// Without the library, which would not send the request.
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

// alone calls f in a new namespace, which ends afterwards.
func alone(f func() error) error {
	ns, err := netns.New(f)
	if err == nil {
		err = ns.Close()
	}
	return err
}
