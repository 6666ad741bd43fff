package ovs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	firstTries = 5               // the median counts
	echoLimit  = 2 * time.Second // after this an echo counts as lost; a daemon on a slow machine takes time
)

// errLost says that an echo did not come back.
var errLost = errors.New("no answer")

// FirstPacket returns the time of the first echo to an address and back after the datapath has forgotten all its
// decisions. Both packets then go to the daemon and through its OpenFlow tables. do calls a function in the namespace
// of the source. ok is false if echoes are not answered.
func (i Instance) FirstPacket(do func(func() error) error, from, to netip.Addr) (took time.Duration, ok bool,
	err error,
) {
	var c *net.IPConn
	network, request := "ip4:icmp", byte(8) // RFC 792
	if from.Is6() {
		network, request = "ip6:ipv6-icmp", 128 // RFC 4443, section 4.1
	}
	if err := do(func() (err error) {
		c, err = net.ListenIP(network, &net.IPAddr{IP: from.AsSlice()})
		return err
	}); err != nil {
		return 0, false, fmt.Errorf("measure the first packet: %w", err)
	}
	defer c.Close()
	var list []time.Duration
	for n := range firstTries {
		// after this the ends know each other's link addresses
		if _, err := echo(c, to, request, uint16(2*n)); errors.Is(err, errLost) {
			return 0, false, nil
		} else if err != nil {
			return 0, false, fmt.Errorf("measure the first packet: %w", err)
		}
		if err := i.ForgetDecisions(); err != nil {
			return 0, false, fmt.Errorf("measure the first packet: %w", err)
		}
		took, err := echo(c, to, request, uint16(2*n+1))
		if err != nil {
			return 0, false, fmt.Errorf("measure the first packet: %w", err)
		}
		list = append(list, took)
	}
	slices.Sort(list)
	return list[len(list)/2], true, nil
}

// echo sends one echo request and waits for the answer.
func echo(c *net.IPConn, to netip.Addr, request byte, number uint16) (time.Duration, error) {
	const id = 0x4e54
	m := []byte{
		request, 0, 0, 0, id >> 8, id & 0xff, byte(number >> 8), byte(number), 'n', 'e', 't', 't', 'o', 'l', 'l',
		'!',
	}
	reply := byte(0)
	if request == 8 {
		binary.BigEndian.PutUint16(m[2:], checksum(m))
	} else { // the kernel adds its checksum (RFC 3542, section 3.1)
		reply = 129
	}
	began := time.Now()
	if err := c.SetDeadline(began.Add(echoLimit)); err != nil {
		return 0, err
	}
	if _, err := c.WriteToIP(m, &net.IPAddr{IP: to.AsSlice()}); err != nil {
		return 0, err
	}
	buf := make([]byte, 1<<10)
	for {
		n, _, err := c.ReadFromIP(buf)
		took := time.Since(began)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return 0, errLost
		}
		if err != nil {
			return 0, err
		}
		if n >= 8 && buf[0] == reply && binary.BigEndian.Uint16(buf[4:]) == id && binary.BigEndian.Uint16(buf[6:]) == number {
			return took, nil
		}
	}
}

// checksum returns the checksum of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
