package openvpn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// A Tunnel is a process of OpenVPN for one other host, with its TUN link. The link is down.
type Tunnel struct {
	// Link and MTU (bytes) are those of its link. The process has the name of the link.
	Link string `json:"link"`
	MTU  int    `json:"mtu"`
	// Host and Peer are the numbers of the hosts, from 1: their keys are derived from those. The one with the lower
	// number is the TLS server.
	Host int `json:"host"`
	Peer int `json:"peer"`
	// Local and Remote are the addresses of encrypted packets, and Port is that of UDP of both.
	Local  string `json:"local"`
	Remote string `json:"remote"`
	Port   uint16 `json:"port"`
	// Cipher is the value of the parameter.
	Cipher string `json:"cipher"`
	// Every is after how many seconds keys are renewed; 0: after an hour, the default of OpenVPN.
	Every int `json:"rekey,omitempty"`
}

// Kind returns "openvpn".
func (Tunnel) Kind() string { return name }

// String says the step as a person would.
func (t Tunnel) String() string {
	text := fmt.Sprintf("openvpn %s, mtu %d, to host%d, from %s to %s, port %d, %s", t.Link, t.MTU, t.Peer, t.Local,
		t.Remote, t.Port, t.Cipher)
	if t.Every > 0 {
		text += fmt.Sprintf(", new keys after %d s", t.Every)
	}
	return text
}

func unknown(of string) error {
	return fmt.Errorf("invalid value %q for %s (valid: %s)", of, cipher, strings.Join(ciphers(), ", "))
}

// debian is the package that has the program.
const debian = "openvpn"

// least is the first version that pins certificates and agrees on a cipher without a server (Changes.rst of OpenVPN).
const least = "2.6"

// installed says whether the program is there and new enough, and whether it can make links.
func installed() error {
	const what = "encrypt by OpenVPN"
	path, err := exec.LookPath(name)
	if err != nil {
		return &linux.UnsupportedError{
			What: what, Missing: fmt.Sprintf("program %q", name), Hint: "install the package " + debian, Err: err,
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	said, _ := exec.CommandContext(ctx, path, "--version").Output() // versions differ in the status that they exit with
	var major, minor int
	if _, err := fmt.Sscanf(string(said), "OpenVPN %d.%d", &major, &minor); err != nil {
		return fmt.Errorf("%s: %s --version says %.40q, not its version", what, path, said)
	}
	if major < 2 || major == 2 && minor < 6 {
		return &linux.UnsupportedError{
			What: what, Missing: fmt.Sprintf("OpenVPN %s (%s is %d.%d)", least, path, major, minor),
			Hint: "install a newer package " + debian,
		}
	}
	return link.CheckTUN(what)
}

// tunnelWas is what a [Tunnel] keeps.
type tunnelWas struct {
	Process host.Process `json:"process,omitzero"`
}

const (
	// starting is how long a process may take until it has its link and its socket.
	starting = 10 * time.Second
	// connecting is how long the handshake may take from when the process was started. Both ends run when Verify waits
	// for it: it takes one or two seconds, and longer only on a machine that has more to do.
	connecting = 20 * time.Second
	// grace is how long a process is given to end.
	grace = 2 * time.Second
	pause = 5 * time.Millisecond
	// tun is what links of programs are called (package netlink, Tuntap.Type).
	tun = "tuntap"
)

// Apply starts the process and waits until it has its link and its socket, and not for its peer.
func (t Tunnel) Apply(ctx context.Context, k *host.Kernel) (err error) {
	if !slices.Contains(ciphers(), t.Cipher) {
		return unknown(t.Cipher)
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	if _, err := h.ByName(t.Link); err == nil {
		return fmt.Errorf("link %q already exists", t.Link)
	} else if !errors.Is(err, link.ErrNotFound) {
		return err
	}
	dir, err := k.RunDir(t.Link)
	if err != nil {
		return err
	}
	var was tunnelWas
	defer func() {
		if err != nil {
			err = errors.Join(err, t.remove(k, was))
		}
	}()
	config, err := t.config(k, managed(dir))
	if err != nil {
		return err
	}
	if err := k.Keep(was); err != nil {
		return err
	}
	r, err := k.Start(host.Program{
		Name: t.Link, Args: []string{name, "--config", "stdin"}, Package: debian, Control: true,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(r.Died(), err, r.Stop(grace))
		}
	}()
	was.Process = r.Process()
	if err := k.Keep(was); err != nil {
		return err
	}
	if err := tell(r.Control(), config); err != nil {
		return fmt.Errorf("configure %s: %w", t.Link, err)
	}
	who, err := t.started(ctx, r, dir)
	if err != nil {
		return err
	}
	k.Implementation("encryption", who)
	return nil
}

// tell writes the configuration to the process. It reads that to its end.
func tell(control net.Conn, config string) error {
	if _, err := io.WriteString(control, config); err != nil {
		return err
	}
	if c, ok := control.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.New("its input has no end")
}

// started waits until the process answers, and returns what it is.
func (t Tunnel) started(ctx context.Context, r *host.Running, dir string) (who string, err error) {
	timeout := time.After(starting)
	for {
		m, err := manage(dir)
		if err == nil {
			who, err = m.version()
			_ = m.Close()
		}
		if err == nil {
			return who, nil
		}
		select {
		case <-time.After(pause):
		case <-r.Done():
			return "", fmt.Errorf("%s did not start", t.Link)
		case <-timeout:
			return "", fmt.Errorf("%s did not start within %s: %w", t.Link, starting, err)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Remove ends the process. Its link goes with it.
func (t Tunnel) Remove(_ context.Context, k *host.Kernel) error {
	var was tunnelWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return t.remove(k, was)
}

func (t Tunnel) remove(k *host.Kernel, was tunnelWas) error {
	err := k.Stop(was.Process, grace)
	dir, derr := k.RunDir(t.Link)
	if derr == nil {
		derr = os.RemoveAll(dir)
	}
	return errors.Join(err, derr)
}

// Verify asks whether the process runs, has its link and its peer. It waits for the handshake, so that a packet sent
// after it is not lost.
func (t Tunnel) Verify(k *host.Kernel) error {
	differs := func(what, want, got string) error {
		return &host.DriftError{Step: t.String(), Drifts: []linux.Difference{{What: what, Want: want, Got: got}}}
	}
	r := k.Running(t.Link)
	if r == nil {
		return differs("process of "+t.Link, linux.Present, linux.Absent)
	}
	if died := r.Died(); died != nil {
		return differs("process of "+t.Link, "running", died.Error())
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	l, err := h.ByName(t.Link)
	if errors.Is(err, link.ErrNotFound) {
		return differs("link "+t.Link, linux.Present, linux.Absent)
	}
	if err != nil {
		return err
	}
	if l.Type != tun {
		return differs("type of "+t.Link, tun, l.Type)
	}
	links, err := procfs.TUN(r.PID())
	if err != nil {
		return err
	}
	if !slices.Contains(links, t.Link) {
		return differs("process of link "+t.Link, name, "another one")
	}
	got, err := t.settled(k, r)
	if died := r.Died(); died != nil {
		return differs("process of "+t.Link, "running", died.Error())
	}
	if err != nil {
		got = err.Error()
	}
	if got != connected {
		return differs("state of "+t.Link, connected, got)
	}
	return nil
}

// settled asks the process for its state, and waits for the handshake as long as that may take.
func (t Tunnel) settled(k *host.Kernel, r *host.Running) (got string, err error) {
	dir, err := k.RunDir(t.Link)
	if err != nil {
		return "", err
	}
	socket, err := os.Stat(managed(dir)) // the process makes it when it starts
	if err != nil {
		return "", err
	}
	m, err := manage(dir)
	if err != nil {
		return "", err
	}
	defer m.Close()
	for {
		got, err = m.state()
		if err != nil || got == connected || time.Since(socket.ModTime()) > connecting {
			return got, err
		}
		select {
		case <-time.After(10 * pause):
		case <-r.Done():
			return got, nil
		}
	}
}
