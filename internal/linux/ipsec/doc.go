// Package ipsec makes ESP security associations (RFC 4303) between hosts: those of the kernel through netlink, and
// those of strongSwan's daemon charon, which encrypts in userspace and is configured through its vici socket.
package ipsec
