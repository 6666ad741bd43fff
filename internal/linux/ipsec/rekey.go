package ipsec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strongswan/govici/vici"
)

// Rekey makes charon negotiate new security associations with a peer, and returns when they encrypt packets to it.
func (i Instance) Rekey(ctx context.Context, p Peer, gone <-chan struct{}) error {
	return i.talk(func(s *vici.Session) error {
		before, err := outbound(s, p)
		if err != nil {
			return err
		}
		if before == "" {
			return fmt.Errorf("there is no security association with host %d", p.Host)
		}
		if _, err := call(s, "rekey", map[string]any{"ike": name(p.Host), "child": child}); err != nil {
			return err
		}
		for deadline := time.Now().Add(patience); ; {
			now, err := outbound(s, p)
			if err != nil {
				return err
			}
			if now != "" && now != before {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("the security association with host %d is the same after %s", p.Host, patience)
			}
			select {
			case <-time.After(pause):
			case <-gone:
				return errors.New("the program has ended")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// outbound returns the number (SPI) of the association that encrypts packets to a peer; "" if there is none.
func outbound(s *vici.Session, p Peer) (string, error) {
	sessions, err := stream[session](s, "list-sas", "list-sa", nil)
	if err != nil {
		return "", err
	}
	for _, one := range sessions[name(p.Host)] {
		for _, e := range one.Children {
			if e.State == "INSTALLED" {
				return e.Out, nil
			}
		}
	}
	return "", nil
}
