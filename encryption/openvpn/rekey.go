package openvpn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
)

// saysKeys is what the process says after each TLS handshake, the first one too (OpenVPN 2.6,
// src/openvpn/ssl_openssl.c, print_details).
const saysKeys = "Control Channel: TLS"

// longestRekey is how long Rekey waits for a renewal at most, in seconds.
const longestRekey = 60

// Rekey waits until the process has renewed its keys, if its peer has a higher number. There is no other way: the
// management interface of OpenVPN 2.6 has no command for it, and SIGUSR1 begins a new session, in which packets are
// lost.
func (t Tunnel) Rekey(ctx context.Context, k *host.Kernel, _ int) (more bool, err error) {
	if t.Every == 0 || t.Every > longestRekey {
		return false, &linux.UnsupportedError{
			What: "renew the keys of " + t.Link, Missing: "a command of OpenVPN for it",
			Hint: "with rekey=2s it does so every two seconds",
		}
	}
	r := k.Running(t.Link)
	if r == nil || t.Peer < t.Host {
		return false, nil
	}
	count := func() (int, error) {
		logs, err := k.Logs()
		return strings.Count(logs[t.Link], saysKeys), err
	}
	before, err := count()
	if err != nil {
		return false, err
	}
	timeout := time.After(time.Duration(2*t.Every)*time.Second + starting)
	for {
		now, err := count()
		if err != nil || now > before {
			return false, err
		}
		select {
		case <-time.After(pause):
		case <-r.Done():
			return false, r.Died()
		case <-timeout:
			return false, fmt.Errorf("%s has not renewed its keys, which it should every %d s", t.Link, t.Every)
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
