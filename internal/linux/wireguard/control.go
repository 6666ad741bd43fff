package wireguard

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// patience is how long an embedded device may take to answer.
const patience = 5 * time.Second

// Set configures an embedded device over its control socket. It replaces the previous configuration.
func Set(control net.Conn, c Config) error {
	if c.Key.key == nil {
		return errors.New("configure the device: no private key was given")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "set=1\nprivate_key=%s\n", hex.EncodeToString(c.Key.key[:]))
	fmt.Fprintf(&b, "listen_port=%d\nreplace_peers=true\n", c.Port)
	for _, p := range c.Peers {
		fmt.Fprintf(&b, "public_key=%s\nendpoint=%s\nreplace_allowed_ips=true\n", hex.EncodeToString(p.Key[:]), p.Endpoint)
		for _, a := range p.Allowed {
			fmt.Fprintf(&b, "allowed_ip=%s\n", a)
		}
	}
	b.WriteByte('\n')
	_, err := ask(control, b.String())
	return err
}

// Get asks an embedded device for its state.
func Get(control net.Conn) (State, error) {
	lines, err := ask(control, "get=1\n\n")
	if err != nil {
		return State{}, err
	}
	return parse(lines)
}

// ask sends a request and returns the lines of the answer as pairs, without the last one. An error contains nothing of
// the request, which may hold keys.
func ask(control net.Conn, request string) ([][2]string, error) {
	fail := func(err error) ([][2]string, error) {
		return nil, fmt.Errorf("ask the device: %w", err)
	}
	if control == nil {
		return fail(net.ErrClosed)
	}
	if err := control.SetDeadline(time.Now().Add(patience)); err != nil {
		return fail(err)
	}
	if _, err := control.Write([]byte(request)); err != nil {
		return fail(err)
	}
	var lines [][2]string
	for r := bufio.NewReader(control); ; { // nothing follows the answer, because the client waits for it
		line, err := r.ReadString('\n')
		if err != nil {
			return fail(err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch {
		case name == "errno" && value != "0":
			return fail(fmt.Errorf("it refuses: error %s (its log says more)", value))
		case name == "errno":
			_, err := r.ReadString('\n') // an empty line
			return lines, err
		}
		lines = append(lines, [2]string{name, value})
	}
}

// parse reads the answer to "get". It converts the private key into the public one at once.
func parse(lines [][2]string) (State, error) {
	var s State
	var errs []error
	number := func(value string) int {
		n, err := strconv.Atoi(value)
		errs = append(errs, err)
		return n
	}
	key := func(value string) (k [32]byte) {
		if n, err := hex.Decode(k[:], []byte(value[:min(len(value), 64)])); err != nil || n != 32 || len(value) != 64 {
			errs = append(errs, errors.New("a key is not of 64 hexadecimal digits"))
		}
		return k
	}
	for _, l := range lines {
		name, value := l[0], l[1]
		var p *PeerState
		if n := len(s.Peers); n > 0 {
			p = &s.Peers[n-1]
		}
		switch {
		case name == "private_key":
			own := key(value)
			var err error
			s.Key, err = Private{&own}.Public()
			errs = append(errs, err)
		case name == "listen_port":
			s.Port = uint16(number(value))
		case name == "fwmark":
			s.Mark = number(value)
		case name == "public_key":
			s.Peers = append(s.Peers, PeerState{Peer: Peer{Key: key(value)}})
		case p == nil: // a key of a later version
		case name == "preshared_key":
			p.Preshared = key(value) != [32]byte{}
		case name == "endpoint":
			var err error
			p.Endpoint, err = netip.ParseAddrPort(value)
			errs = append(errs, err)
		case name == "last_handshake_time_sec":
			p.Handshake = time.Unix(int64(number(value)), 0)
		case name == "last_handshake_time_nsec":
			p.Handshake = p.Handshake.Add(time.Duration(number(value)))
		case name == "persistent_keepalive_interval":
			p.Keepalive = time.Duration(number(value)) * time.Second
		case name == "allowed_ip":
			a, err := netip.ParsePrefix(value)
			p.Allowed = append(p.Allowed, a)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return State{}, fmt.Errorf("read the state of the device: %w", err)
	}
	return s, nil
}
