// Package ipsec is the encryption "ipsec": ESP (RFC 4303) in tunnel mode between all hosts.
//
//	host 1                                          host 2
//	  ipsec0  198.19.1.1/24, fd00:198:19:1::1/64      ipsec0  198.19.1.2/24, fd00:198:19:1::2/64
//	    │ ESP                                           │ ESP
//	  up0 ────────────────── underlay ────────────────▸ up0
//
// Each host has one link, ipsec0, to which it routes the containers of the other hosts. Policies say which addresses
// are whose: what goes to addresses of a host is encrypted for that host, and only that host can send from them.
//
// # What it protects
//
// Whoever sees or changes packets on the underlay can neither read what containers send to other hosts nor pretend to
// be a host: packets that were changed, repeated or sent by others are dropped. With cipher=null they can be read, but
// still not changed. Packets that no security association encrypts are dropped, also before the hosts have agreed on
// one, and after it is gone: the only routes to containers of other hosts lead to ipsec0.
//
// It does not hide who talks to whom as far as hosts go, nor how long packets are and when they are sent. Packets
// between containers of one host are not encrypted. Root on a host can read the keys. A host forwards whatever another
// host sends with its own addresses, as a router does: that is for a filter.
//
// # Who encrypts
//
// impl=kernel uses the kernel's ESP (xfrm), with an xfrm interface. It needs the modules xfrm_interface, xfrm_user,
// esp4 and esp6. There is no IKE: the keys are derived from the secret of the lab, a different one for each direction,
// pair of hosts and family, and they stay the same as long as the lab stands.
//
// impl=strongswan uses the daemon charon of strongSwan with its plugin kernel-libipsec, which encrypts in userspace and
// sends ESP in UDP. Hosts agree on keys by IKEv2 with a shared key for each pair of hosts, which is derived from the
// secret of the lab and given to charon over its socket, never in a file. Keys are agreed on once: there is no
// rekeying, so an association ends after 2³² packets. charon takes packets of up to 1400 bytes, however large those of
// the underlay are.
//
// impl=auto uses the kernel if it can, and strongSwan otherwise. Both look the same on the wire, since encap=udp
// carries ESP in UDP to port 4500 (RFC 3948) as charon must, and the link has the same MTU. Without UDP (encap=none) it
// is the kernel that encrypts.
//
// A program that AppArmor confines may only use files that its profile lists. The profile of Debian 12 for
// charon-systemd only complains; where one is enforced, charon cannot open its socket, and building says so.
//
// # Ciphers
//
// aes-256-gcm and aes-128-gcm are AES-GCM with a value of 16 bytes (RFC 4106). aes-256-cbc is AES-CBC (RFC 3602) with
// HMAC-SHA1-96 (RFC 2404), which is what studies of the field have measured. null has HMAC-SHA1-96 alone (RFC 2410).
package ipsec
