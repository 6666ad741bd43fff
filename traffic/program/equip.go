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

// FilePath is where a program finds number i, from 0, of [Role.Files]. It is for those without a [Role.Log].
func FilePath(i int) string { return fmt.Sprintf("/proc/self/fd/%d", firstFile+i) }

// firstFile is the number after those of standard input, output and error.
const firstFile = 3

// ready says whether the server listens: of one that serves, whether it does itself, and not somebody else at its port.
// A program that goes on trying to get that would not be missed, since a source of ours talks to who is there; others
// end, and say why.
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

// taken says whether somebody else listens where a server is to serve.
func (e *endpoint) taken(server *process.Child) bool {
	if !e.role.streams() {
		return false
	}
	bound, _ := procfs.Bound(server.PID(), e.role.Listens, e.role.Local) // what is wrong here is wrong in ready
	own, _ := e.ready(server)
	return bound && !own
}

// streams says whether it serves streams.
func (r Role) streams() bool { return r.Stop == Serves && r.Listens == "tcp" }

// fill lets a server that listens be filled, and says what did not come to good.
func (e *endpoint) fill(server *process.Child) (overdue string) {
	if e.role.Fill == nil {
		return ""
	}
	err := netns.Here(int(e.home.Fd()), e.role.Fill)
	if err != nil && !server.Wait(0) { // why it has ended, if it has, it says itself
		return "was not filled: " + err.Error()
	}
	return ""
}

// equip gives a server that listens its socket options, and says what it did not take. Connections inherit them from
// the listening socket; the first may have been quicker, and gets its own a moment later, when the server has accepted
// it.
func (e *endpoint) equip(server *process.Child) (overdue string) {
	if e.role.Options == (sock.Options{}) {
		return ""
	}
	err := set(server.Listening, e.role.Options)
	if !server.Wait(clock.Now() + int64(listenPoll)) {
		err = cmp.Or(err, set(func() ([]int, error) { return server.Streams(map[string]bool{}) }, e.role.Options))
	}
	if err != nil && !server.Wait(0) { // why it has ended, if it has, it says itself
		return "did not take its socket options: " + err.Error()
	}
	return ""
}

// set gives options to the sockets that a function returns copies of, and closes those.
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
	// unpaced is the congestion control that every namespace may have as its default (tcp_set_default_congestion_control,
	// net/ipv4/tcp_cong.c).
	unpaced = "reno"
)

// Unpace sees to it that a stream which begins with the default congestion control of the calling thread's namespace is
// not paced, which would stay where another is set later (bbr_init, net/ipv4/tcp_bbr.c): iperf3 then sends a quarter.
// It is for [Role.Before]. Sockets of nettoll's own engine choose theirs before they connect, and do not notice.
func Unpace(congestion string) error {
	now, err := sysctl.Read(congestionKey)
	if err != nil || now != "bbr" || congestion == "" || congestion == "bbr" {
		return err
	}
	return sysctl.Write(congestionKey, unpaced)
}
