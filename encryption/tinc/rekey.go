package tinc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
)

// What the program says when it has new keys for the packets to it, and when it was told those of another host:
// src/net.c (main_loop) and src/protocol_key.c.
const (
	saysExpired = "Expiring symmetric keys"
	saysKey     = "Got ANS_KEY from %s ("
)

// longestRekey is how long Rekey waits for a renewal at most, in seconds.
const longestRekey = 60

// Rekey waits until the program has renewed its keys and was told the new ones of hosts with a higher number. There is
// no other way: no signal makes it do so (src/process.c).
func (d Daemon) Rekey(_ context.Context, k *host.Kernel, _ int) (more bool, err error) {
	if d.Every == 0 || d.Every > longestRekey {
		return false, &linux.UnsupportedError{
			What: "renew the keys of " + d.Name, Missing: "a command of tinc for it",
			Hint: "with rekey=2s it does so every two seconds",
		}
	}
	var wanted []string
	for _, n := range d.Nodes {
		if n.Host > d.Host {
			wanted = append(wanted, fmt.Sprintf(saysKey, called(n.Host)))
		}
	}
	r := k.Running(name)
	if r == nil || len(wanted) == 0 {
		return false, nil
	}
	from, err := logged(k)
	if err != nil {
		return false, err
	}
	most := time.Duration(2*d.Every)*time.Second + patience
	err = wait(k, r, most, from, func(said string) bool {
		for _, one := range append(wanted, saysExpired) {
			if !strings.Contains(said, one) {
				return false
			}
		}
		return true
	})
	return false, err
}
