package tinc

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"filippo.io/keygen"

	"github.com/nettoll/nettoll/host"
)

// bits is the length of the keys of RSA: the default of tincd(8).
const bits = 2048

// key derives the private key of a host of the lab. All hosts derive the same ones.
func key(k *host.Kernel, of int) (*rsa.PrivateKey, error) {
	seed, err := k.Derive(purpose(of))
	if err != nil {
		return nil, err
	}
	own, err := keygen.RSA(bits, seed)
	if err != nil {
		return nil, fmt.Errorf("derive a key of RSA: %w", err)
	}
	return own, nil
}

// private is a private key as the program reads it.
func private(k *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

// public is the public key of it.
func public(k *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&k.PublicKey)})
}
