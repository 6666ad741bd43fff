package wireguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// MergedMost is the largest number of packets that the library sends, or writes to its link, as one large segment
// (conn.IdealBatchSize, which limits both UDP GSO and merging for the link).
const MergedMost = conn.IdealBatchSize

// Embeddable returns nil if an embedded device can have its link, and otherwise what is missing.
func Embeddable() error { return link.CheckTUN("encrypt by the embedded WireGuard") }

// Args returns the arguments of [Serve] for a link with that name and MTU.
func Args(name string, mtu int) []string { return []string{name, strconv.Itoa(mtu)} }

// Serve is the main function of the process of an embedded device. It makes the link in the network namespace of the
// process, is configured over control, and carries packets until control ends or the link is deleted. The device works
// as soon as it is configured, even before the link is up, so that no packet is lost when the link is set up.
func Serve(ctx context.Context, control net.Conn, args []string, said io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("%d arguments (valid: the name of a link, and its MTU)", len(args))
	}
	mtu, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("MTU %q: %w", args[1], err)
	}
	native, err := tun.CreateTUN(args[0], mtu)
	if err != nil {
		return fmt.Errorf("make link %q: %w", args[0], err)
	}
	logger := log.New(said, "", log.LstdFlags)
	d := device.NewDevice(alwaysUp(native), conn.NewDefaultBind(), &device.Logger{
		Verbosef: device.DiscardLogf, Errorf: logger.Printf,
	})
	defer d.Close()
	if err := d.Up(); err != nil {
		return fmt.Errorf("start the device: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		d.IpcHandle(control)
		close(ended)
	}()
	renew := make(chan os.Signal, 1)
	signal.Notify(renew, SignalRenew)
	defer signal.Stop(renew)
	for {
		select {
		case <-renew:
			if err := handshake(d); err != nil {
				logger.Print(err)
			}
		case <-ended:
			return nil
		case <-d.Wait():
			return errors.New("the link is gone")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SignalRenew makes an embedded device start a handshake with each peer, which gives both ends new keys. The library
// does not start a handshake within RekeyTimeout, 5 s, of the last one that it has started.
const SignalRenew = syscall.SIGUSR1

// handshake starts a handshake with each peer.
func handshake(d *device.Device) error {
	state, err := d.IpcGet()
	if err != nil {
		return err
	}
	for line := range strings.Lines(state) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), "public_key=")
		if !found {
			continue
		}
		var key device.NoisePublicKey
		if err := key.FromHex(text); err != nil {
			return err
		}
		if p := d.LookupPeer(key); p != nil {
			if err := p.SendHandshakeInitiation(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// up hides from the device that its link is set up and down: the device would be notified later than the first packet.
type up struct {
	tun.Device
	events chan tun.Event
}

func alwaysUp(d tun.Device) up {
	u := up{d, make(chan tun.Event)}
	go func() {
		defer close(u.events)
		for e := range d.Events() {
			if e &= tun.EventMTUUpdate; e != 0 {
				u.events <- e
			}
		}
	}()
	return u
}

// Events returns changes of the MTU.
func (u up) Events() <-chan tun.Event { return u.events }
