package tinc

import (
	"encoding/base64"

	"github.com/nettoll/nettoll/host"
)

// Secrets returns what nobody may see of a host: what its key is derived from, its primes and its exponent, and the
// middle of its file, as that has it.
func Secrets(k *host.Kernel, of int) ([][]byte, error) {
	seed, err := k.Derive(purpose(of))
	if err != nil {
		return nil, err
	}
	own, err := key(k, of)
	if err != nil {
		return nil, err
	}
	file := private(own)
	return [][]byte{
		seed, []byte(base64.StdEncoding.EncodeToString(seed)[:40]), own.D.Bytes(),
		own.Primes[0].Bytes(), own.Primes[1].Bytes(), file[len(file)/2 : len(file)/2+48],
	}, nil
}
