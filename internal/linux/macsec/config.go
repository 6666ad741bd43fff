package macsec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

// EtherType is the EtherType of protected frames: IEEE 802.1AE-2018, table 9-1.
const EtherType = 0x88e5

// port is the port of every device in its identifier (SCI). The rest of the identifier is the MAC address.
const port = 1

// widestExtended is the largest window in packets with extended packet numbers (MACSEC_XPN_MAX_REPLAY_WINDOW,
// drivers/net/macsec.c).
const widestExtended = 1<<30 - 1

// A Cipher says how frames are encrypted and authenticated.
type Cipher struct {
	// Name is its name in ip-macsec(8): "gcm-aes-128".
	Name string
	// Extended says that packet numbers have 64 bits, of which 32 are sent.
	Extended bool
	// KeyLength is the length of the key, in bytes.
	KeyLength int
	// id is the identifier of the cipher: IEEE 802.1AE-2018, table 14-1.
	id uint64
}

// Ciphers lists the ciphers, the kernel's default first.
func Ciphers() []Cipher {
	return []Cipher{
		{Name: "gcm-aes-128", KeyLength: 16, id: 0x0080c20001000001},
		{Name: "gcm-aes-256", KeyLength: 32, id: 0x0080c20001000002},
		{Name: "gcm-aes-xpn-128", KeyLength: 16, Extended: true, id: 0x0080c20001000003},
		{Name: "gcm-aes-xpn-256", KeyLength: 32, Extended: true, id: 0x0080c20001000004},
	}
}

// Names lists the names of the ciphers, the kernel's default first.
func Names() []string {
	var names []string
	for _, c := range Ciphers() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the cipher with a name.
func Find(name string) (Cipher, error) {
	for _, c := range Ciphers() {
		if c.Name == name {
			return c, nil
		}
	}
	return Cipher{}, fmt.Errorf("invalid cipher %q (valid: %s)", name, strings.Join(Names(), ", "))
}

// CheckWindow returns an error if a device with the cipher cannot have a window of that many packets.
func (c Cipher) CheckWindow(packets uint32) error {
	if c.Extended && packets > widestExtended {
		return fmt.Errorf("invalid window %d (valid with cipher %s: 0 to %d)", packets, c.Name, widestExtended)
	}
	return nil
}

// named returns the name of the cipher that the kernel reports.
func named(id uint64) string {
	const old = 0x0080020001000001 // the kernel's value for gcm-aes-128 (MACSEC_DEFAULT_CIPHER_ID, if_macsec.h)
	for _, c := range Ciphers() {
		if c.id == id || id == old && c.id == Ciphers()[0].id {
			return c.Name
		}
	}
	return fmt.Sprintf("%#x", id)
}

// A Config is the configuration of a device.
type Config struct {
	// Below is the index of the link below it.
	Below  int
	Cipher Cipher
	// Window is how far behind the newest packet a packet may arrive, in packets. With 0, each packet must be newer
	// than the last.
	Window uint32
	// Own is the channel on which it sends, and Peers are the channels on which it receives.
	Own   Channel
	Peers []Channel
}

// A Channel is a secure channel: a sending device, with its key.
type Channel struct {
	// Host is the number of the host, from 1; with extended packet numbers, it is also the number of the channel.
	Host int
	// MAC is the address of the device.
	MAC net.HardwareAddr
	Key Key
}

// sci returns its identifier: IEEE 802.1AE-2018, section 9.9.
func (c Channel) sci() []byte { return binary.BigEndian.AppendUint16(bytes.Clone(c.MAC), port) }

// Lengths in bytes (MACSEC_KEYID_LEN and MACSEC_SALT_LEN, include/uapi/linux/if_macsec.h).
const (
	IDLength   = 16
	SaltLength = 12
)

// A Key is a key of a channel. It has an identifier, which the kernel reports and which is not secret, and a salt,
// which extended packet numbers need. It never prints its bytes.
type Key struct{ bytes, id, salt []byte }

// NewKey makes a key. The kernel never reports the key itself, so no other key may have the same identifier.
func NewKey(b, id, salt []byte) (Key, error) {
	if len(id) != IDLength || len(salt) != SaltLength {
		return Key{}, fmt.Errorf("a name of %d bytes and a salt of %d: want %d and %d", len(id), len(salt), IDLength,
			SaltLength)
	}
	return Key{slices.Clone(b), slices.Clone(id), slices.Clone(salt)}, nil
}

// Format writes the type and never the bytes, for any verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "a key") }

// MarshalJSON always returns an error.
func (Key) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a key must not be written anywhere")
}

// A state is what the kernel reports about a device.
type state struct {
	sci                                                    []byte
	cipher                                                 uint64
	window                                                 uint32
	icv, encoding, validate                                byte
	protect, encrypt, replay, operates, include, end, copy bool
	own                                                    []association
	peers                                                  []receiving
}

// A receiving is a channel on which a device receives.
type receiving struct {
	sci    []byte
	active bool
	list   []association
}

// An association is a key in use.
type association struct {
	number byte
	active bool
	id     []byte
	ssci   uint32
}

func (a association) String() string {
	text := fmt.Sprintf("%d by key %x", a.number, a.id)
	if a.ssci != 0 {
		text += fmt.Sprintf(" of channel %d", a.ssci)
	}
	if !a.active {
		text += " (not active)"
	}
	return text
}

func listed(list []association) string {
	if len(list) == 0 {
		return "none"
	}
	var all []string
	for _, a := range list {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}

// strict means that frames are dropped unless a known key protects them (MACSEC_VALIDATE_STRICT).
const strict = 2

// icv is the length of the check value in bytes: IEEE 802.1AE-2018, section 14.5.
const icv = 16

// wanted returns the state that the kernel should report.
func (c Config) wanted() state {
	one := func(of Channel) []association {
		a := association{active: true, id: of.Key.id}
		if c.Cipher.Extended {
			a.ssci = uint32(of.Host)
		}
		return []association{a}
	}
	s := state{
		sci: c.Own.sci(), cipher: c.Cipher.id, window: c.Window, icv: icv, validate: strict,
		protect: true, encrypt: true, replay: true, operates: true, include: true, own: one(c.Own),
	}
	for _, p := range c.Peers {
		s.peers = append(s.peers, receiving{sci: p.sci(), active: true, list: one(p)})
	}
	return s
}

// compare lists the differences of the state of a device from the wanted one.
func (s state) compare(name string, got state) (list []linux.Difference) {
	differ := func(what, want, got string) {
		if want != got {
			list = append(list, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	for _, c := range []struct {
		what      string
		want, got any
	}{
		{"identifier", fmt.Sprintf("%x", s.sci), fmt.Sprintf("%x", got.sci)},
		{"cipher", named(s.cipher), named(got.cipher)},
		{"length of the check value", s.icv, got.icv},
		{"association that sends", s.encoding, got.encoding},
		{"validation", validations(s.validate), validations(got.validate)},
		{"protection", s.protect, got.protect},
		{"encryption", s.encrypt, got.encrypt},
		{"replay protection", s.replay, got.replay},
		{"window", s.window, got.window},
		{"operation", s.operates, got.operates},
		{"identifier in each frame", s.include, got.include},
		{"end station", s.end, got.end},
		{"single copy broadcast", s.copy, got.copy},
		{"associations to send", listed(s.own), listed(got.own)},
	} {
		differ(c.what+" of "+name, said(c.want), said(c.got))
	}
	found := map[string]receiving{}
	for _, r := range got.peers {
		found[string(r.sci)] = r
	}
	for _, want := range s.peers {
		what := fmt.Sprintf("channel %x of %s", want.sci, name)
		r, ok := found[string(want.sci)]
		delete(found, string(want.sci))
		if !ok {
			differ(what, linux.Present, linux.Absent)
			continue
		}
		differ(what, said(want.active), said(r.active))
		differ("associations of "+what, listed(want.list), listed(r.list))
	}
	for sci := range found {
		differ(fmt.Sprintf("channel %x of %s", sci, name), linux.Absent, linux.Present)
	}
	slices.SortFunc(list, func(a, b linux.Difference) int { return strings.Compare(a.What, b.What) })
	return list
}

// said returns a setting as text.
func said(v any) string {
	switch v {
	case true:
		return "on"
	case false:
		return "off"
	}
	return fmt.Sprint(v)
}

func validations(n byte) string {
	all := []string{"disabled", "check", "strict"} // enum macsec_validation_type, include/uapi/linux/if_link.h
	if int(n) < len(all) {
		return all[n]
	}
	return fmt.Sprint(n)
}
