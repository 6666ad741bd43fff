// Package ipsec makes security associations of ESP (RFC 4303) between hosts: those of the kernel by netlink, and those
// of strongSwan's daemon charon, which encrypts in userspace and is told what to do over its socket of vici.
package ipsec
