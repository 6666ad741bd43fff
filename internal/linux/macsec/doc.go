// Package macsec makes MACsec devices of the kernel (IEEE 802.1AE), whose keys are given and never agreed on.
package macsec
