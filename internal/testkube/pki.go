package testkube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"time"
)

// lifetime is how long certificates are valid.
const lifetime = 7 * 24 * time.Hour

// An authority signs the certificates of a cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// newAuthority makes an authority.
func newAuthority() (*authority, error) {
	a := &authority{}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "nettoll-testkube"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	var err error
	if a.cert, a.key, err = a.sign(template); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return a, nil
}

// sign makes a key and the certificate of a template; the first one is signed by its own key.
func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = template.NotBefore.Add(lifetime)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	return cert, key, err
}

// A subject is whom a certificate is for.
type subject struct {
	user, group string // of Kubernetes: common name and organization; "" for no group
	names       []string
	addresses   []netip.Addr
}

// issue makes the files PATH.crt and PATH.key, in PEM: a certificate for a client and for a server, and its key.
func (a *authority) issue(path string, s subject) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: s.user}, DNSNames: s.names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if s.group != "" {
		template.Subject.Organization = []string{s.group}
	}
	for _, address := range s.addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	cert, key, err := a.sign(template)
	if err == nil {
		err = writePEM(path+".crt", "CERTIFICATE", cert.Raw)
	}
	if err == nil {
		err = writeKey(path, key)
	}
	if err != nil {
		return fmt.Errorf("issue the certificate of %s: %w", s.user, err)
	}
	return nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path+".key", "PRIVATE KEY", raw)
}

func writePEM(path, kind string, raw []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
}

// issueKeys makes the files PATH.key and PATH.pub, in PEM: a pair of keys.
func issueKeys(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(path+".pub", "PUBLIC KEY", raw), writeKey(path, key))
}

// kubeconfig returns the configuration of a client that has the files of a certificate. YAML, which clients read,
// includes JSON.
func (a *authority) kubeconfig(path, server string) ([]byte, error) {
	cert, err := os.ReadFile(path + ".crt")
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(path + ".key")
	if err != nil {
		return nil, err
	}
	type object = map[string]any
	const name = "nettoll-testkube"
	return json.MarshalIndent(object{ // []byte becomes base64
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{object{"name": name, "cluster": object{"server": server, "certificate-authority-data": a.pem}}},
		"users":    []any{object{"name": name, "user": object{"client-certificate-data": cert, "client-key-data": key}}},
		"contexts": []any{object{"name": name, "context": object{"cluster": name, "user": name}}},
	}, "", "  ")
}
