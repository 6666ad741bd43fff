package ipsec

import (
	"fmt"
	"strings"
)

// A Cipher says how ESP packets are encrypted and authenticated.
type Cipher struct {
	// Name is the name that users choose: "aes-256-gcm".
	Name string
	// IV and ICV are the lengths in bytes of the initialization vector and of the integrity check value.
	IV, ICV int
	// Block is the length in bytes to a multiple of which packets are padded: at least 4 (RFC 4303, section 2.4).
	Block int
	// Source is the source of these numbers.
	Source string
	// Null says that packets are only authenticated: anyone who sees them can read them.
	Null bool

	// proposal is strongSwan's name; encryption, bits and integrity are what it reports.
	proposal, encryption, bits, integrity string
	// aead or crypt and auth are the kernel's names of the algorithms, and key and authKey the lengths of their keys in
	// bytes. The key of GCM ends in a salt of 4 bytes (RFC 4106, section 8.1).
	aead, crypt, auth string
	key, authKey      int
}

// Lengths from RFC 2404: that of the key of HMAC-SHA1-96, and that of its value.
const (
	sha1Key = 20
	sha1ICV = 12
)

// Ciphers lists the ciphers, the default first.
func Ciphers() []Cipher {
	const gcm, sha1 = "rfc4106(gcm(aes))", "hmac(sha1)"
	const gcmSource, sha1Source = "RFC 4106, sections 3 and 6", "RFC 2404, section 3"
	return []Cipher{
		{
			Name: "aes-256-gcm", IV: 8, ICV: 16, Block: 4, Source: gcmSource,
			proposal: "aes256gcm16", encryption: "AES_GCM_16", bits: "256", aead: gcm, key: 36,
		},
		{
			Name: "aes-128-gcm", IV: 8, ICV: 16, Block: 4, Source: gcmSource,
			proposal: "aes128gcm16", encryption: "AES_GCM_16", bits: "128", aead: gcm, key: 20,
		},
		{
			Name: "aes-256-cbc", IV: 16, ICV: sha1ICV, Block: 16, Source: "RFC 3602, section 3; " + sha1Source,
			proposal: "aes256-sha1", encryption: "AES_CBC", bits: "256", integrity: "HMAC_SHA1_96",
			crypt: "cbc(aes)", key: 32, auth: sha1, authKey: sha1Key,
		},
		{
			Name: "null", ICV: sha1ICV, Block: 4, Source: "RFC 2410; " + sha1Source, Null: true,
			proposal: "null-sha1", encryption: "NULL", integrity: "HMAC_SHA1_96",
			crypt: "ecb(cipher_null)", auth: sha1, authKey: sha1Key,
		},
	}
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

// Names lists the names of the ciphers, the default first.
func Names() []string {
	var names []string
	for _, c := range Ciphers() {
		names = append(names, c.Name)
	}
	return names
}

// KeyLength returns the length in bytes of the keys for one direction: the encryption key and the authentication key.
func (c Cipher) KeyLength() int { return c.key + c.authKey }
