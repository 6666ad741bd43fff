package bpf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// effective asks for the programs of a control group and of those above it, in the order in which they run
// (BPF_F_QUERY_EFFECTIVE, include/uapi/linux/bpf.h).
const effective = 1

// A place is a hook that belongs to no link.
type place struct {
	name string
	at   ebpf.AttachType
}

// ofGroups are the hooks of control groups at which a program sees, changes or refuses what processes send, receive and
// set (BPF_CGROUP_…, include/uapi/linux/bpf.h). Those for devices and sysctls are left out.
func ofGroups() []place {
	return []place{
		{"ingress", ebpf.AttachCGroupInetIngress},
		{"egress", ebpf.AttachCGroupInetEgress},
		{"sock_create", ebpf.AttachCGroupInetSockCreate},
		{"sock_release", ebpf.AttachCgroupInetSockRelease},
		{"sock_ops", ebpf.AttachCGroupSockOps},
		{"bind4", ebpf.AttachCGroupInet4Bind},
		{"bind6", ebpf.AttachCGroupInet6Bind},
		{"post_bind4", ebpf.AttachCGroupInet4PostBind},
		{"post_bind6", ebpf.AttachCGroupInet6PostBind},
		{"connect4", ebpf.AttachCGroupInet4Connect},
		{"connect6", ebpf.AttachCGroupInet6Connect},
		{"sendmsg4", ebpf.AttachCGroupUDP4Sendmsg},
		{"sendmsg6", ebpf.AttachCGroupUDP6Sendmsg},
		{"recvmsg4", ebpf.AttachCGroupUDP4Recvmsg},
		{"recvmsg6", ebpf.AttachCGroupUDP6Recvmsg},
		{"getsockopt", ebpf.AttachCGroupGetsockopt},
		{"setsockopt", ebpf.AttachCGroupSetsockopt},
	}
}

// OfGroup returns the programs that act on the sockets of processes in a control group of cgroup v2, by hook: those of
// the group and of all groups above it. Group is an open file of its directory.
func OfGroup(group int) (map[string]string, error) { return standing(group, effective, ofGroups()) }

// OfNamespace returns the programs of a network namespace that belong to no link, by hook: one of sk_lookup chooses the
// socket for what arrives, whatever its port is. Namespace is an open file of it.
func OfNamespace(namespace int) (map[string]string, error) {
	return standing(namespace, 0, []place{
		{"sk_lookup", ebpf.AttachSkLookup}, {"flow_dissector", ebpf.AttachFlowDissector},
	})
}

func standing(target int, flags uint32, places []place) (map[string]string, error) {
	all := map[string]string{}
	for _, p := range places {
		r, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: p.at, QueryFlags: flags})
		if errors.Is(err, unix.EINVAL) { // the kernel does not have this hook
			continue
		}
		if errors.Is(err, unix.EPERM) || errors.Is(err, ebpf.ErrNotSupported) { // the latter in a user namespace
			return nil, &linux.UnsupportedError{
				What: "read programs at " + p.name, Missing: "CAP_NET_ADMIN outside of any user namespace", Err: err,
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read programs at %s: %w", p.name, err)
		}
		var list []string
		for _, one := range r.Programs {
			list = append(list, fmt.Sprintf("program %d", one.ID))
		}
		if len(list) > 0 {
			all[p.name] = strings.Join(list, " ")
		}
	}
	return all, nil
}
