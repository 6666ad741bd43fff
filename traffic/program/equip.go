package program

import (
	"cmp"
	"fmt"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// FilePath returns the path at which a program finds file i, from 0, of [Role.Files]. It is for roles without
// [Role.Log].
func FilePath(i int) string { return fmt.Sprintf("/proc/self/fd/%d", firstFile+i) }

// firstFile is the number after standard input, output and error.
const firstFile = 3

// ready reports whether the server listens. For a program that serves, it checks that the program itself listens, and
// not another process at its port. A program that keeps trying to get the port would not be noticed, because nettoll's
// source talks to any server there. Other programs end, with the reason in their output.
func (e *endpoint) ready(server *process.Child) (bool, error) {
	if !e.role.streams() {
		return procfs.Bound(server.PID(), e.role.Listens, e.role.Local)
	}
	fds, err := server.Listening()
	found := false
	for _, fd := range fds {
		s := sock.Socket{FD: fd}
		at, err := s.Local()
		found = found || err == nil && at.Port() == e.role.Local.Port()
		s.Close()
	}
	return found, err
}

// taken reports whether another process listens at the address of a server.
func (e *endpoint) taken(server *process.Child) bool {
	if !e.role.streams() {
		return false
	}
	bound, _ := procfs.Bound(server.PID(), e.role.Listens, e.role.Local) // ready reports errors of this call
	own, _ := e.ready(server)
	return bound && !own
}

// streams reports whether it serves streams.
func (r Role) streams() bool { return r.Stop == Serves && r.Listens == "tcp" }

// fill fills a listening server with data, and returns what failed.
func (e *endpoint) fill(server *process.Child) (overdue string) {
	if e.role.Fill == nil {
		return ""
	}
	err := netns.Here(int(e.home.Fd()), e.role.Fill)
	if err != nil && !server.Wait(0) { // if it has ended, its output has the reason
		return "was not filled: " + err.Error()
	}
	return ""
}

// equip sets the socket options of a listening server, and returns what failed. Connections inherit them from the
// listening socket. The first connection may be earlier; it gets its options a moment later, when the server has
// accepted it.
func (e *endpoint) equip(server *process.Child) (overdue string) {
	if e.role.Options == (sock.Options{}) {
		return ""
	}
	err := set(server.Listening, e.role.Options)
	if !server.Wait(clock.Now() + int64(listenPoll)) {
		err = cmp.Or(err, set(func() ([]int, error) { return server.Streams(map[string]bool{}) }, e.role.Options))
	}
	if err != nil && !server.Wait(0) { // if it has ended, its output has the reason
		return "did not take its socket options: " + err.Error()
	}
	return ""
}

// set sets options on sockets; the given function returns copies of them, which set closes.
func set(sockets func() ([]int, error), options sock.Options) error {
	fds, err := sockets()
	for _, fd := range fds {
		s := sock.Socket{FD: fd}
		err = cmp.Or(err, s.Set(options))
		s.Close()
	}
	return err
}

const (
	congestionKey = "net.ipv4.tcp_congestion_control"
	// unpaced is a congestion control that every namespace may have as its default (tcp_set_default_congestion_control,
	// net/ipv4/tcp_cong.c).
	unpaced = "reno"
)

// Unpace makes sure that a stream that starts with the default congestion control of the calling thread's namespace is
// not paced. Pacing would remain if another congestion control is set later (bbr_init, net/ipv4/tcp_bbr.c): iperf3 then
// sends a quarter. Unpace is for [Role.Before]. Sockets of nettoll's own engine choose their congestion control before
// they connect, and are not affected.
func Unpace(congestion string) error {
	now, err := sysctl.Read(congestionKey)
	if err != nil || now != "bbr" || congestion == "" || congestion == "bbr" {
		return err
	}
	if err := sysctl.Write(congestionKey, unpaced); err != nil {
		return fmt.Errorf("the default congestion control here, bbr, would also pace streams of %s that a program starts, "+
			"and cannot be changed: %w (hint: congestion control bbr, or driver nettoll)", congestion, err)
	}
	return nil
}
