package main

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/measure"
)

const (
	debianGo   = "wireguard-go"
	debianPort = 51821
	wgMTU      = 1440 // of both: 1500 bytes minus WireGuard's overhead over IPv4
)

// wireguard compares the embedded WireGuard with Debian's program wireguard-go. A stream of this process goes from host
// to host, through one and then through the other, on one underlay.
func (b *bench) wireguard(ctx context.Context) error {
	if _, err := exec.LookPath(debianGo); err != nil {
		return &linux.UnsupportedError{
			What: "compare the embedded WireGuard", Missing: "program " + debianGo, Hint: "apt-get install " + debianGo,
		}
	}
	var ratios [][]float64
	var ours, theirs []float64
	for group := range b.groups {
		b.say("wireguard: group %d of %d", group+1, b.groups)
		p, err := b.openPath(ctx)
		if err != nil {
			return err
		}
		ratios = append(ratios, nil)
		for range b.rounds {
			var got [2]float64
			for _, i := range b.random.Perm(2) {
				time.Sleep(settle)
				if got[i], err = p.stream(ctx, p.sinks[i], b.visit); err != nil {
					p.close()
					return fmt.Errorf("a stream to %s: %w", p.sinks[i], err)
				}
			}
			ours, theirs = append(ours, got[0]), append(theirs, got[1])
			ratios[group] = append(ratios[group], measure.LogRatio(got[0], got[1]))
		}
		p.close()
	}
	r := row{
		what: "TCP stream between hosts by wireguard(impl=embedded); other: " + debianGo + " of Debian",
		ours: bitrate(measure.Median(ours)), theirs: bitrate(measure.Median(theirs)),
		goal: fmt.Sprintf("at least %d", wireguardGoal),
	}
	r.ratio, r.met = compared(ratios, wireguardGoal, false)
	b.table.add(r)
	return nil
}

// A path is two hosts that reach each other through both programs.
type path struct {
	ends  []io.Closer
	hosts [2]*os.File   // their network namespaces
	sinks [2]netip.Addr // of host 2: through the embedded one, and through the other
	keys  [2]*ecdh.PrivateKey
}

func (b *bench) openPath(ctx context.Context) (p *path, err error) {
	p = new(path)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	s, err := b.spanning(2, [2]string{"encryption", "wireguard"})
	if err != nil {
		return nil, err
	}
	c, err := newCell(b.parts, streamed+")", 0, b.visit)
	if err != nil {
		return nil, err
	}
	l, err := openLabOf(ctx, b, s, []cell{c})
	if err != nil {
		return nil, err
	}
	p.ends = append(p.ends, closer(l.close))
	places := l.stands.(deploy.Enterable).Places() //nolint:forcetypeassert // labs of this machine can be entered
	for i := range p.keys {
		if p.hosts[i], err = places[i].Namespace(""); err != nil {
			return nil, err
		}
		p.ends = append(p.ends, p.hosts[i])
		if p.keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return nil, err
		}
	}
	for i := range p.keys {
		if err := p.start(ctx, i, s); err != nil {
			return nil, err
		}
	}
	p.sinks = [2]netip.Addr{s.Net.Top().Reach[0][1].IPv4, debianAddr(1).Addr()}
	return p, nil
}

// closer turns a function into an [io.Closer].
type closer func()

func (c closer) Close() error { c(); return nil }

func (p *path) close() {
	for _, end := range slices.Backward(p.ends) {
		_ = end.Close() // the rest goes with the process
	}
}

// debianAddr is a host's address through Debian's program: from RFC 2544, appendix C.2.2, in a range that the spans of
// labs do not use.
func debianAddr(host int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, 200, byte(host + 1)}), 24)
}

// start starts the program on a host and configures it (wireguard.com/xplatform: its socket is named after the link,
// and network namespaces do not separate two of the same name).
func (p *path) start(ctx context.Context, on int, s deploy.Spec) error {
	name := fmt.Sprintf("wgo%d", on)
	socket := filepath.Join("/var/run/wireguard", name+".sock")
	cmd := exec.CommandContext(ctx, debianGo, "-f", name)
	var tail process.Tail
	cmd.Stdout, cmd.Stderr = &tail, &tail
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := netns.Do(int(p.hosts[on].Fd()), cmd.Start); err != nil {
		return err
	}
	p.ends = append(p.ends, closer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = os.Remove(socket) // the program removes it itself, unless it was killed
	}))
	other := s.Net.Spans[0].Reach[on][1-on].IPv4
	config := fmt.Sprintf("set=1\nprivate_key=%s\nlisten_port=%d\npublic_key=%s\nendpoint=%s\nallowed_ip=%s\n\n",
		hex.EncodeToString(p.keys[on].Bytes()), debianPort, hex.EncodeToString(p.keys[1-on].PublicKey().Bytes()),
		netip.AddrPortFrom(other, debianPort), debianAddr(1-on).Masked())
	for patience := time.Now().Add(startLimit); ; time.Sleep(settle) {
		err := tell(socket, config)
		if err == nil {
			break
		}
		if time.Now().After(patience) {
			return errors.New(tail.After(err.Error()))
		}
	}
	return netns.Do(int(p.hosts[on].Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		l, err := h.ByName(name)
		if err != nil {
			return err
		}
		return errors.Join(h.SetMTU(l.Index, wgMTU), h.AddAddress(l.Index, debianAddr(on)), h.SetUp(l.Index, true))
	})
}

// tell configures a device over its socket.
func tell(socket, config string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, config); err != nil {
		return err
	}
	answer := make([]byte, 100)
	n, err := c.Read(answer)
	if err == nil && strings.TrimSpace(string(answer[:n])) != "errno=0" {
		err = fmt.Errorf("%s says %q", socket, bytes.TrimSpace(answer[:n]))
	}
	return err
}

// stream sends from host 1 to an address of host 2 for a length of time. It returns the throughput at the receiver, in
// bit/s.
func (p *path) stream(ctx context.Context, to netip.Addr, length time.Duration) (float64, error) {
	var listener *net.TCPListener
	if err := netns.Do(int(p.hosts[1].Fd()), func() (err error) {
		listener, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to, 0)))
		return err
	}); err != nil {
		return 0, err
	}
	defer listener.Close()
	received := make(chan int64, 1)
	begun := make(chan error, 1)
	go func() {
		c, err := listener.AcceptTCP()
		begun <- err
		if err != nil {
			return
		}
		defer c.Close()
		n, _ := io.CopyBuffer(writer{}, struct{ io.Reader }{c}, make([]byte, chunk))
		received <- n
	}()
	var c net.Conn
	if err := netns.Do(int(p.hosts[0].Fd()), func() (err error) {
		d := net.Dialer{Timeout: startLimit * 2} // the first packet waits for the keys
		c, err = d.DialContext(ctx, "tcp4", listener.Addr().String())
		return err
	}); err != nil {
		return 0, err
	}
	defer c.Close()
	if err := <-begun; err != nil {
		return 0, err
	}
	began := time.Now()
	for data := make([]byte, chunk); time.Since(began) < length; {
		if _, err := c.Write(data); err != nil {
			return 0, err
		}
	}
	if err := c.Close(); err != nil {
		return 0, err
	}
	n := <-received // after all data has arrived
	return float64(n) * 8 / time.Since(began).Seconds(), nil
}

// chunk is the size of a write to a stream in bytes, the same as tcp-stream's.
const chunk = 128 << 10

// writer discards its input. It does not implement io.ReaderFrom.
type writer struct{}

func (writer) Write(p []byte) (int, error) { return len(p), nil }
