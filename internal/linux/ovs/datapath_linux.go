package ovs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// The names and commands of the kernel module (include/uapi/linux/openvswitch.h).
const (
	datapathFamily  = "ovs_datapath"
	datapathVersion = 2 // OVS_DATAPATH_VERSION
	datapathDelete  = 2 // OVS_DP_CMD_DEL
	datapathName    = 1 // OVS_DP_ATTR_NAME
	datapathHeader  = 4 // struct ovs_header
)

// KernelDatapath returns nil if the kernel has the module openvswitch, and otherwise what is missing. The request loads
// the module if possible.
func KernelDatapath() error {
	_, err := netlink.GenlFamilyGet(datapathFamily)
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENOENT) {
		return &linux.UnsupportedError{
			What: "forward by Open vSwitch in the kernel", Missing: "kernel module openvswitch",
			Hint: "datapath=userspace does without", Err: err,
		}
	}
	return fmt.Errorf("ask for the kernel module openvswitch: %w", err)
}

// UserspaceDatapath returns nil if the daemon can forward packets itself, and otherwise what is missing. The daemon
// makes the bridge's own link through /dev/net/tun, and needs it for other links.
func UserspaceDatapath() error { return link.CheckTUN("forward by Open vSwitch in userspace") }

// countsFrom is the uptime after which the daemon counts its CPUs. It recounts after the same interval
// (lib/ovs-thread.c, COUNT_CPU_UPDATE_TIME_MS), and treats the boot as its last count.
const countsFrom = 10 * time.Second

// AwaitCPUs waits until the daemon can count the CPUs, 10 s after the boot. Without a count, the daemon registers no
// handlers in the kernel, and the datapath drops all packets that none of its own flows matches.
func AwaitCPUs() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("ask since when the machine runs: %w", err)
	}
	time.Sleep(countsFrom - time.Duration(now.Nano()))
	return nil
}

// DeleteKernelDatapath removes a datapath with its links from the calling thread's namespace. It succeeds if the
// datapath is already gone.
func DeleteKernelDatapath(name string) error {
	family, err := netlink.GenlFamilyGet(datapathFamily)
	if err != nil {
		return nil //nolint:nilerr // a kernel without the module has no datapath
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(&nl.Genlmsg{Command: datapathDelete, Version: datapathVersion})
	request.AddRawData(make([]byte, datapathHeader))
	attribute := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofNlAttr+len(name)+1))
	attribute = binary.NativeEndian.AppendUint16(attribute, datapathName)
	attribute = append(append(attribute, name...), 0)
	for len(attribute)%unix.NLA_ALIGNTO != 0 {
		attribute = append(attribute, 0)
	}
	request.AddRawData(attribute)
	if _, err := request.Execute(unix.NETLINK_GENERIC, 0); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete datapath %q: %w", name, err)
	}
	return nil
}
