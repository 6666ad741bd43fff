// Package macsec makes MACsec devices of the kernel (IEEE 802.1AE) with given keys, without key agreement.
package macsec
