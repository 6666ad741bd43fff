package macsec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

const hint = "load the kernel module macsec (CONFIG_MACSEC), or choose another encryption"

// kind is the kind of its links, and the name of the generic netlink family that sets their keys.
const kind = "macsec"

// Attributes of a link: enum in include/uapi/linux/if_link.h. The library does not have them.
const (
	linkSCI        = 1
	linkICV        = 3
	linkCipher     = 4
	linkWindow     = 5
	linkEncoding   = 6
	linkEncrypt    = 7
	linkProtect    = 8
	linkIncludeSCI = 9
	linkReplay     = 12
	linkValidation = 13
)

// Commands and attributes of the family: include/uapi/linux/if_macsec.h.
const (
	get         = 0
	addReceiver = 1
	addSending  = 4
	addReceived = 7

	ofIndex     = 1
	ofReceiver  = 2
	ofAssoc     = 3
	ofDevice    = 4
	ofSendings  = 5
	ofReceivers = 6

	deviceSCI      = 1
	deviceEncoding = 2
	deviceWindow   = 3
	deviceCipher   = 4
	deviceICV      = 5
	deviceProtect  = 6
	deviceReplay   = 7
	deviceOperates = 8
	deviceValidate = 9
	deviceEncrypt  = 10
	deviceInclude  = 11
	deviceEnd      = 12
	deviceCopy     = 13

	receiverSCI    = 1
	receiverActive = 2
	receiverAssocs = 3

	assocNumber = 1
	assocActive = 2
	assocPacket = 3
	assocKey    = 4
	assocID     = 5
	assocSSCI   = 8
	assocSalt   = 9
)

// InKernel returns nil if the kernel supports a device with the cipher, and otherwise what is missing. It tries in a
// network namespace of its own.
func InKernel(c Cipher) error {
	if err := link.CheckKind(kind, hint); err != nil {
		return err
	}
	var tried error
	ns, err := netns.New(func() error {
		tried = try(c)
		return nil
	})
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil // without the privilege to try, building will report it
		}
		return err
	}
	if err := ns.Close(); err != nil {
		return err
	}
	const what = "encrypt by MACsec of the kernel"
	switch {
	case errors.Is(tried, unix.EPERM):
		return &linux.UnsupportedError{
			What: what, Missing: "the right to set keys (CAP_NET_ADMIN on the machine, not in a user namespace)",
			Hint: "run it as root", Err: tried,
		}
	case errors.Is(tried, unix.ENOENT), errors.Is(tried, unix.EOPNOTSUPP), errors.Is(tried, unix.EINVAL):
		return &linux.UnsupportedError{
			What: what, Missing: "cipher " + c.Name + " of the kernel", Hint: "load the kernel modules macsec and gcm",
			Err: tried,
		}
	case tried != nil:
		return fmt.Errorf("%s: %w", what, tried)
	}
	return nil
}

// try makes a device in the calling thread's network namespace.
func try(c Cipher) error {
	const below, name = "try0", "try1"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: below}, PeerName: "try2"}); err != nil {
		return err
	}
	l, err := netlink.LinkByName(below)
	if err != nil {
		return err
	}
	key, err := NewKey(make([]byte, c.KeyLength), make([]byte, IDLength), make([]byte, SaltLength))
	if err != nil {
		return err
	}
	_, err = Add(name, Config{
		Below: l.Attrs().Index, Cipher: c, Own: Channel{Host: 1, MAC: l.Attrs().HardwareAddr, Key: key},
	})
	return err
}

// Add makes the device in the calling thread's network namespace, with all of its keys. The device is down. The index
// is 0 if it was not made.
func Add(name string, c Config) (index int, err error) {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	req.AddData(nl.NewRtAttr(unix.IFLA_LINK, nl.Uint32Attr(uint32(c.Below))))
	req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, c.Own.MAC))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(kind))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	data.AddRtAttr(linkSCI, c.Own.sci())
	data.AddRtAttr(linkICV, nl.Uint8Attr(icv))
	data.AddRtAttr(linkCipher, nl.Uint64Attr(c.Cipher.id))
	data.AddRtAttr(linkEncoding, nl.Uint8Attr(0))
	data.AddRtAttr(linkEncrypt, nl.Uint8Attr(1))
	data.AddRtAttr(linkProtect, nl.Uint8Attr(1))
	data.AddRtAttr(linkIncludeSCI, nl.Uint8Attr(1))
	data.AddRtAttr(linkReplay, nl.Uint8Attr(1))
	data.AddRtAttr(linkWindow, nl.Uint32Attr(c.Window))
	data.AddRtAttr(linkValidation, nl.Uint8Attr(strict))
	req.AddData(info)
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		if missing := link.CheckKind(kind, hint); missing != nil {
			return 0, missing
		}
		return 0, fmt.Errorf("make device %q of type %q: %w", name, kind, err)
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("find link %q: %w", name, err)
	}
	index = l.Attrs().Index
	family, err := netlink.GenlFamilyGet(kind)
	if err != nil {
		return index, fmt.Errorf("find the family %q of generic netlink: %w", kind, err)
	}
	if err := add(family, addSending, index, nil, c.association(c.Own)); err != nil {
		return index, fmt.Errorf("give %q its key: %w", name, err)
	}
	for _, p := range c.Peers {
		if err := add(family, addReceiver, index, receiver(p, true), nil); err != nil {
			return index, fmt.Errorf("add the channel of host %d to %q: %w", p.Host, name, err)
		}
		if err := add(family, addReceived, index, receiver(p, false), c.association(p)); err != nil {
			return index, fmt.Errorf("give %q the key of host %d: %w", name, p.Host, err)
		}
	}
	return index, nil
}

// add sends a request of the family.
func add(family *netlink.GenlFamily, command uint8, index int, more ...*nl.RtAttr) error {
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: command, Version: uint8(family.Version)})
	req.AddData(nl.NewRtAttr(ofIndex, nl.Uint32Attr(uint32(index))))
	for _, a := range more {
		if a != nil {
			req.AddData(a)
		}
	}
	_, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// receiver returns the attribute for a channel on which to receive.
func receiver(of Channel, active bool) *nl.RtAttr {
	a := nl.NewRtAttr(ofReceiver|unix.NLA_F_NESTED, nil)
	a.AddRtAttr(receiverSCI, of.sci())
	if active {
		a.AddRtAttr(receiverActive, nl.Uint8Attr(1))
	}
	return a
}

// association returns the only association of a channel.
func (c Config) association(of Channel) *nl.RtAttr {
	a := nl.NewRtAttr(ofAssoc|unix.NLA_F_NESTED, nil)
	a.AddRtAttr(assocNumber, nl.Uint8Attr(0))
	a.AddRtAttr(assocActive, nl.Uint8Attr(1))
	a.AddRtAttr(assocKey, of.Key.bytes)
	a.AddRtAttr(assocID, of.Key.id)
	if c.Cipher.Extended {
		a.AddRtAttr(assocPacket, nl.Uint64Attr(1))
		a.AddRtAttr(assocSSCI, binary.BigEndian.AppendUint32(nil, uint32(of.Host)))
		a.AddRtAttr(assocSalt, of.Key.salt)
	} else {
		a.AddRtAttr(assocPacket, nl.Uint32Attr(1))
	}
	return a
}

// Compare lists the differences between the device and its configuration, in the calling thread's network namespace.
func Compare(name string, c Config) ([]linux.Difference, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find link %q: %w", name, err)
	}
	got, err := read(l.Attrs().Index)
	if err != nil {
		return nil, fmt.Errorf("read device %q of type %q: %w", name, kind, err)
	}
	list := c.wanted().compare(name, got)
	if l.Attrs().ParentIndex != c.Below {
		list = append(list, linux.Difference{
			What: "link below " + name, Want: fmt.Sprint("number ", c.Below), Got: fmt.Sprint("number ", l.Attrs().ParentIndex),
		})
	}
	return list, nil
}

// read returns the state that the kernel reports for the device with an index.
func read(index int) (state, error) {
	family, err := netlink.GenlFamilyGet(kind)
	if err != nil {
		return state{}, err
	}
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	req.AddData(&nl.Genlmsg{Command: get, Version: uint8(family.Version)})
	answers, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return state{}, err
	}
	for _, answer := range answers {
		if len(answer) < nl.SizeofGenlmsg {
			continue
		}
		all, err := parse(answer[nl.SizeofGenlmsg:])
		if err != nil {
			return state{}, err
		}
		if int(all.number(ofIndex)) == index {
			return all.state()
		}
	}
	return state{}, errors.New("the kernel does not list the link as a MACsec link")
}

// attributes holds the attributes of a message, by type.
type attributes map[uint16][]byte

func parse(b []byte) (attributes, error) {
	list, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil, err
	}
	all := attributes{}
	for _, a := range list {
		all[a.Attr.Type&^unix.NLA_F_NESTED] = a.Value
	}
	return all, nil
}

// number returns the value of an attribute of 1, 4 or 8 bytes.
func (a attributes) number(of uint16) uint64 {
	switch b := a[of]; len(b) {
	case 1:
		return uint64(b[0])
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

func (a attributes) is(of uint16) bool { return a.number(of) != 0 }

// each calls f with each element of an attribute that is a list.
func (a attributes) each(of uint16, f func(attributes) error) error {
	list, err := nl.ParseRouteAttr(a[of])
	if err != nil {
		return err
	}
	for _, one := range list {
		all, err := parse(one.Value)
		if err == nil {
			err = f(all)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a attributes) associations(of uint16) (list []association, err error) {
	err = a.each(of, func(one attributes) error {
		s := association{
			number: byte(one.number(assocNumber)), active: one.is(assocActive), id: slices.Clone(one[assocID]),
		}
		if b := one[assocSSCI]; len(b) == 4 {
			s.ssci = binary.BigEndian.Uint32(b)
		}
		list = append(list, s)
		return nil
	})
	return list, err
}

func (a attributes) state() (state, error) {
	d, err := parse(a[ofDevice])
	if err != nil {
		return state{}, err
	}
	s := state{
		sci: slices.Clone(d[deviceSCI]), cipher: d.number(deviceCipher), window: uint32(d.number(deviceWindow)),
		icv: byte(d.number(deviceICV)), encoding: byte(d.number(deviceEncoding)), validate: byte(d.number(deviceValidate)),
		protect: d.is(deviceProtect), encrypt: d.is(deviceEncrypt), replay: d.is(deviceReplay),
		operates: d.is(deviceOperates), include: d.is(deviceInclude), end: d.is(deviceEnd), copy: d.is(deviceCopy),
	}
	if s.own, err = a.associations(ofSendings); err != nil {
		return s, err
	}
	err = a.each(ofReceivers, func(one attributes) error {
		r := receiving{sci: slices.Clone(one[receiverSCI]), active: one.is(receiverActive)}
		r.list, err = one.associations(receiverAssocs)
		s.peers = append(s.peers, r)
		return err
	})
	return s, err
}
