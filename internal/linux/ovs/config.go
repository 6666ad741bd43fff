package ovs

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Types of messages about the configuration of a bridge (OpenFlow 1.4, section 7.3.2), and its handling of fragments.
const (
	typeGetConfig   = 7
	typeGotConfig   = 8
	typeSetConfig   = 9
	typeBarrier     = 20
	typeBarrierDone = 21

	fragmentMask    = 3
	fragmentNormal  = 0
	fragmentMatched = 3 // OFPC_FRAG_NX_MATCH, nicira-ext.h
)

// MatchFragments sets whether flows see the ports in the first fragment of a packet, and can recognize the other
// fragments (nx-match in ovs-ofctl(8)). Otherwise they see no ports in fragments.
func (c *Conn) MatchFragments(on bool) error {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	flags := byte(fragmentNormal)
	if on {
		flags = fragmentMatched
	}
	if _, err := c.conn.Write(append(c.message(typeSetConfig, []byte{0, flags, 0, 128}),
		c.message(typeBarrier, nil)...)); err != nil {
		return fmt.Errorf("set how fragments are matched: %w", err)
	}
	if kind, body, err := c.read(); err != nil {
		return fmt.Errorf("set how fragments are matched: %w", err)
	} else if kind != typeBarrierDone {
		return fmt.Errorf("set how fragments are matched: %w", refused(kind, body))
	}
	return nil
}

// MatchesFragments reports the setting of MatchFragments.
func (c *Conn) MatchesFragments() (bool, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	if _, err := c.conn.Write(c.message(typeGetConfig, nil)); err != nil {
		return false, fmt.Errorf("ask how fragments are matched: %w", err)
	}
	kind, body, err := c.read()
	if err != nil {
		return false, fmt.Errorf("ask how fragments are matched: %w", err)
	}
	if kind != typeGotConfig || len(body) < 2 {
		return false, fmt.Errorf("ask how fragments are matched: %w", refused(kind, body))
	}
	return binary.BigEndian.Uint16(body)&fragmentMask == fragmentMatched, nil
}
