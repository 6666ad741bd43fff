package rights

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Keep leaves the calling thread no capabilities but those of a set, for good. The caller has locked the thread, and
// lets it end: no other code may run with what is left.
//
// If the network namespace of the thread belongs to a user namespace inside its own, the thread becomes nobody. Whoever
// made a user namespace has all capabilities in it, whatever their own are (cap_capable, security/commoncap.c). The
// kernel then writes no core dump of this process any more (commit_creds, kernel/cred.c).
func Keep(set uint64) error {
	all, err := All()
	if err != nil {
		return err
	}
	set &= all // nobody gets more than this process has
	if belongs, err := networkOwner(); err != nil {
		return err
	} else if belongs == inside {
		if err := becomeNobody(); err != nil {
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(set), uint32(set>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}

// becomeNobody changes the user of the calling thread, which keeps what it is permitted. The system calls of the
// library change all threads.
func becomeNobody() error {
	const nobody = 65534 // kernel.overflowuid
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
		return fmt.Errorf("become another user: %w", errno)
	}
	return nil
}

// An owner is the user namespace to which a network namespace belongs, as seen from that of a thread.
type owner int

const (
	same    owner = iota
	inside        // a descendant
	outside       // an ancestor, or a stranger
)

// networkOwned reports whether the network namespace of the calling thread belongs to its user namespace: its
// capabilities count there (network_namespaces(7), user_namespaces(7)).
func networkOwned() (bool, error) {
	o, err := networkOwner()
	return o == same && err == nil, err
}

// networkOwner finds out to which user namespace the network namespace of the calling thread belongs.
func networkOwner() (owner, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	network, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return outside, fmt.Errorf("find the owner of the network namespace: %w", err)
	}
	defer network.Close()
	users, err := unix.IoctlRetInt(int(network.Fd()), unix.NS_GET_USERNS)
	if errors.Is(err, unix.EPERM) {
		return outside, nil // (ioctl_ns(2))
	}
	if err != nil {
		return outside, fmt.Errorf("find the owner of the network namespace: %w", err)
	}
	defer unix.Close(users)
	var theirs, ours unix.Stat_t
	if err := errors.Join(unix.Fstat(users, &theirs), unix.Stat("/proc/thread-self/ns/user", &ours)); err != nil {
		return outside, fmt.Errorf("find the owner of the network namespace: %w", err)
	}
	if theirs.Dev == ours.Dev && theirs.Ino == ours.Ino {
		return same, nil
	}
	return inside, nil
}
