package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Hand sends one byte over a socket, together with files (SCM_RIGHTS, unix(7)). The caller still has to close them.
func Hand(conn *net.UnixConn, files ...*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{1}, rights, nil); err != nil {
		return fmt.Errorf("hand over %d files: %w", len(files), err)
	}
	return nil
}

// Taken receives what [Hand] sent, which is an error if that is more than so many files. The caller closes the files.
func Taken(conn *net.UnixConn, most int) (files []*os.File, err error) {
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4*most))
	n, length, flags, _, err := conn.ReadMsgUnix(data, rights) // Go asks for close-on-exec
	if err != nil {
		return nil, fmt.Errorf("take over files: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:length])
	if err != nil {
		return nil, fmt.Errorf("take over files: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // something other than files
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed "+strconv.Itoa(len(files))))
		}
	}
	if n == 0 || flags&unix.MSG_CTRUNC != 0 || len(files) > most {
		for _, f := range files {
			_ = f.Close()
		}
		return nil, errors.New("take over files: the message is cut short, or has too many")
	}
	return files, nil
}

// PeerUser returns the user of the process at the other end of a socket: the one that connected, or the one that
// listened. It is the user's number in the user namespace of this process.
func PeerUser(conn *net.UnixConn) (int, error) {
	peer, err := peer(conn)
	return int(peer.Uid), err
}

// PeerProcess returns the number of the process that connected a socket, in the PID namespace of this process. It is an
// error if the process is not in that namespace or below it.
func PeerProcess(conn *net.UnixConn) (int, error) {
	peer, err := peer(conn)
	if err == nil && peer.Pid == 0 {
		err = errors.New("the process at the other end of a socket is in another PID namespace")
	}
	return int(peer.Pid), err
}

// peer returns who connected a socket (SO_PEERCRED, unix(7)).
func peer(conn *net.UnixConn) (unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return unix.Ucred{}, err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return unix.Ucred{}, err
	}
	if failed != nil {
		return unix.Ucred{}, fmt.Errorf("ask who is at the other end of a socket: %w", failed)
	}
	return *peer, nil
}

// Lock takes the lock of an open file. The lock is held until the last process that has inherited the file has closed
// it or ended. Lock returns false if another process holds it.
func Lock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %q: %w", f.Name(), err)
	}
	return true, nil
}
