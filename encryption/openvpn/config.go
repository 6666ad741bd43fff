package openvpn

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
)

// identity is what a host shows to others, and proves by its key.
type identity struct {
	certificate []byte // DER
	key         ed25519.PrivateKey
}

// identify derives the identity of a host. All hosts of a lab derive the same: Ed25519 signs without randomness (RFC
// 8032, section 5.1.6), and everything else in the certificate is fixed.
func identify(k *host.Kernel, of int) (identity, error) {
	seed, err := k.Derive(fmt.Sprintf("%s of host %d", name, of))
	if err != nil {
		return identity{}, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(of)), Subject: pkix.Name{CommonName: fmt.Sprintf("host%d", of)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280, section 4.1.2.5
	}
	certificate, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return identity{}, fmt.Errorf("make the certificate of host %d: %w", of, err)
	}
	return identity{certificate, key}, nil
}

// fingerprint is the SHA-256 of the certificate, as OpenVPN wants it.
func (i identity) fingerprint() string {
	sum := sha256.Sum256(i.certificate)
	text := make([]string, len(sum))
	for i, b := range sum {
		text[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(text, ":")
}

// control derives the static key that two hosts encrypt their handshakes with, as OpenVPN's genkey writes one: 256
// bytes in hexadecimal.
func control(k *host.Kernel, one, other int) (string, error) {
	var b strings.Builder
	b.WriteString("-----BEGIN OpenVPN Static key V1-----\n")
	for part := range 256 / sha256.Size {
		key, err := k.Derive(fmt.Sprintf("%s, handshakes of hosts %d and %d, part %d", name, min(one, other), max(one, other),
			part+1))
		if err != nil {
			return "", err
		}
		b.WriteString(hex.EncodeToString(key[:sha256.Size/2]) + "\n" + hex.EncodeToString(key[sha256.Size/2:]) + "\n")
	}
	b.WriteString("-----END OpenVPN Static key V1-----\n")
	return b.String(), nil
}

// buffer is the size of the buffers of sockets in bytes. An ordinary user gets less: net.core.wmem_max and rmem_max.
const buffer = 1 << 20

// config is the configuration of the process, with keys. The management socket is at that path.
func (t Tunnel) config(k *host.Kernel, management string) (string, error) {
	own, err := identify(k, t.Host)
	if err != nil {
		return "", err
	}
	theirs, err := identify(k, t.Peer)
	if err != nil {
		return "", err
	}
	static, err := control(k, t.Host, t.Peer)
	if err != nil {
		return "", err
	}
	key, err := x509.MarshalPKCS8PrivateKey(own.key)
	if err != nil {
		return "", err
	}
	protocol := "udp4"
	if strings.Contains(t.Local, ":") {
		protocol = "udp6"
	}
	lines := []string{
		"dev " + t.Link, "dev-type tun", "persist-tun", "disable-dco", fmt.Sprintf("tun-mtu %d", t.MTU),
		"proto " + protocol, "local " + t.Local, fmt.Sprintf("lport %d", t.Port), "mtu-disc yes",
		fmt.Sprintf("sndbuf %d", buffer), fmt.Sprintf("rcvbuf %d", buffer), "fast-io",
		"mssfix 0", "allow-compression no",
		"data-ciphers " + strings.ToUpper(t.Cipher), "auth SHA1", "tls-version-min 1.3",
		"peer-fingerprint " + theirs.fingerprint(),
		fmt.Sprintf("management %q unix", management),
		fmt.Sprintf("tmp-dir %q", filepath.Dir(management)), // else it wants to write to TMPDIR, which may be another user's
		"script-security 0", "verb 3", "mute 20",
	}
	if t.Every > 0 {
		lines = append(lines, fmt.Sprintf("reneg-sec %d", t.Every))
	}
	if t.Host < t.Peer {
		lines = append(lines, "tls-server", "dh none")
	} else {
		lines = append(lines, "tls-client", fmt.Sprintf("remote %s %d %s", t.Remote, t.Port, protocol),
			// asks after one second more, and after three begins anew and at once. Not after one: the kernel holds a packet
			// for that time if its first ARP request was lost, and answers to two handshakes would get into each other's way.
			"tls-timeout 1", "connect-timeout 3", "connect-retry 1 1")
	}
	for _, inline := range []struct{ tag, text string }{
		{"cert", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.certificate}))},
		{"key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))},
		{"tls-crypt", static},
	} {
		lines = append(lines, "<"+inline.tag+">", strings.TrimSuffix(inline.text, "\n"), "</"+inline.tag+">")
	}
	return strings.Join(lines, "\n") + "\n", nil
}
