package ipsec

import (
	"bytes"
	"crypto/ecdh"
	"encoding/binary"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/ipsec"
	"github.com/nettoll/nettoll/proof/threat"
)

// Numbers of IKE (RFC 7296, section 3; RFC 2408, section 3.1; RFC 2409, appendix A).
const (
	spi       = "stranger" // the initiator's, 8 bytes
	version1  = 0x10
	version2  = 0x20
	mainMode  = 2    // exchange type Identity Protection of IKE version 1
	saInit    = 34   // exchange type IKE_SA_INIT
	initiator = 0x08 // flags
	response  = 0x20
	firstV1   = 1  // payload SA of version 1
	firstV2   = 33 // payload SA of version 2
	notify    = 41
	cookie    = 16390
	ikeHeader = 28
)

// marker precedes messages of IKE at the port of NAT traversal (RFC 3948, section 2.2).
func marker() []byte { return make([]byte, 4) }

// A suite is what an IKE_SA_INIT offers: transforms of the types 1 to 4 (RFC 7296, section 3.3.2, and the registry of
// IANA), and a public value for the last of them.
type suite struct {
	name       string
	encryption uint16
	bits       uint16 // of its key; 0: the transform has no such attribute
	prf        uint16
	integrity  uint16 // 0: the encryption has it
	group      uint16
	public     []byte
}

// modp is a public value of a MODP group of so many bytes.
func modp(length int) []byte { return bytes.Repeat([]byte{0x42}, length) }

// usual is what charon is set up for (see package internal/linux/ipsec). Its public value is twice the base point of
// P-256, because charon computes with it before it answers.
func usual() suite {
	scalar := make([]byte, 32)
	scalar[31] = 2
	key, err := ecdh.P256().NewPrivateKey(scalar)
	if err != nil {
		panic(err) // a scalar between 1 and the order of the group is valid
	}
	return suite{
		name: "AES-256-GCM with SHA-256 and P-256", encryption: 20, bits: 256, prf: 5, group: 19,
		public: key.PublicKey().Bytes()[1:], // RFC 5903, section 7: x and y
	}
}

// weak are suites that are weaker than [usual]: all of it, some of it, or the group alone.
func weak() []suite {
	return []suite{
		{name: "3DES with MD5 and 1024-bit MODP", encryption: 3, prf: 1, integrity: 1, group: 2, public: modp(128)},
		{
			name: "AES-128-CBC with SHA-1 and 2048-bit MODP", encryption: 12, bits: 128, prf: 2, integrity: 2, group: 14,
			public: modp(256),
		},
		{name: "AES-256-GCM with SHA-256 and 1024-bit MODP", encryption: 20, bits: 256, prf: 5, group: 2, public: modp(128)},
	}
}

// initiation is an IKE_SA_INIT with one proposal (RFC 7296, sections 1.2 and 3).
func (s suite) initiation() []byte {
	var transforms [][]byte
	add := func(kind byte, id, bits uint16) {
		if id == 0 {
			return
		}
		t := binary.BigEndian.AppendUint16([]byte{3, 0, 0, 8, kind, 0}, id) // 3: another one follows
		if bits > 0 {
			t[3] += 4
			t = binary.BigEndian.AppendUint16(append(t, 0x80, 14), bits) // attribute Key Length
		}
		transforms = append(transforms, t)
	}
	add(1, s.encryption, s.bits)
	add(2, s.prf, 0)
	add(3, s.integrity, 0)
	add(4, s.group, 0)
	transforms[len(transforms)-1][0] = 0 // the last
	list := slices.Concat(transforms...)
	offer := binary.BigEndian.AppendUint16([]byte{34, 0}, uint16(4+8+len(list))) // payload SA, the next is KE
	offer = binary.BigEndian.AppendUint16(append(offer, 0, 0), uint16(8+len(list)))
	offer = append(append(offer, 1, 1, 0, byte(len(transforms))), list...) // proposal 1, of IKE
	keys := binary.BigEndian.AppendUint16([]byte{40, 0}, uint16(8+len(s.public)))
	keys = append(append(binary.BigEndian.AppendUint16(keys, s.group), 0, 0), s.public...)
	const nonce = 32
	once := append([]byte{0, 0, 0, 4 + nonce}, bytes.Repeat([]byte{0x43}, nonce)...)
	return message(firstV2, version2, saInit, initiator, slices.Concat(offer, keys, once))
}

// mainModeOf1 begins a main mode of IKE version 1 (RFC 2409, section 5): 3DES with MD5, a pre-shared key and 1024-bit
// MODP.
func mainModeOf1() []byte {
	attributes := []byte{0x80, 1, 0, 5, 0x80, 2, 0, 1, 0x80, 3, 0, 1, 0x80, 4, 0, 2}
	transform := append([]byte{0, 0, 0, byte(8 + len(attributes)), 1, 1, 0, 0}, attributes...)
	proposal := append([]byte{0, 0, 0, byte(8 + len(transform)), 1, 1, 0, 1}, transform...)
	sa := append([]byte{0, 0, 0, byte(12 + len(proposal)), 0, 0, 0, 1, 0, 0, 0, 1}, proposal...)
	return message(firstV1, version1, mainMode, 0, sa)
}

// message is a message of IKE from [spi] to somebody who has not answered yet.
func message(first, version, exchange, flags byte, body []byte) []byte {
	m := append(append(marker(), spi...), make([]byte, 8)...)
	m = append(m, first, version, exchange, flags, 0, 0, 0, 0)
	return append(binary.BigEndian.AppendUint32(m, uint32(ikeHeader+len(body))), body...)
}

// answers reads the answers to an offer. An answer takes it if it begins with a payload SA. Otherwise it begins with a
// notification: a refusal, or a cookie that has to come back (RFC 7296, section 2.6).
type answers struct{ Offer []byte }

func (a answers) Read(p []byte) (mine, taken bool, again []byte) {
	if len(p) < 4+ikeHeader || !bytes.Equal(p[:4], marker()) || string(p[4:12]) != spi {
		return false, false, nil
	}
	first, version, flags, body := p[20], p[21], p[23], p[4+ikeHeader:]
	switch {
	case version == version1:
		return true, first == firstV1, nil
	case flags&response == 0:
		return false, false, nil
	case first == notify && len(body) > 8 && binary.BigEndian.Uint16(body[6:]) == cookie:
		length := int(binary.BigEndian.Uint16(body[2:]))
		if length <= 8 || length > len(body) {
			return true, false, nil
		}
		same := append([]byte{firstV2}, body[1:length]...) // the offer follows it
		return true, false, message(notify, version2, saInit, initiator, append(same, a.Offer[4+ikeHeader:]...))
	}
	return true, first == firstV2, nil
}

// hello is an IKE_SA_INIT of a stranger.
func hello() threat.Hello {
	return threat.Hello{Name: "an IKE_SA_INIT", Port: ipsec.Port, Data: weak()[0].initiation()}
}

// offers are first messages that offer weaker suites and versions, and at last what charon is set up for: it does not
// answer a host that has begun too much (charon.block_threshold, strongswan.conf(5)), and that would look like a
// refusal.
func offers() []threat.Offer {
	of := func(name string, usual bool, data []byte) threat.Offer {
		return threat.Offer{
			Hello: threat.Hello{Name: name, Port: ipsec.Port, Data: data}, Usual: usual, Answers: answers{data},
		}
	}
	var list []threat.Offer
	for _, s := range weak() {
		list = append(list, of(s.name, false, s.initiation()))
	}
	return append(list, of("version 1 of IKE, with 3DES and MD5", false, mainModeOf1()),
		of(usual().name, true, usual().initiation()))
}
