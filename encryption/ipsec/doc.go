// Package ipsec is the encryption "ipsec": ESP (RFC 4303) between all hosts, in tunnel mode unless the parameter mode
// says otherwise.
//
//	host 1                                          host 2
//	  ipsec0  198.19.1.1/24, fd00:198:19:1::1/64      ipsec0  198.19.1.2/24, fd00:198:19:1::2/64
//	    │ ESP                                           │ ESP
//	  up0 ────────────────── underlay ────────────────▸ up0
//
// Each host has one link, ipsec0, to which it routes the containers of the other hosts. Policies say which addresses
// are whose: what goes to addresses of a host is encrypted for that host, and only that host can send from them.
//
// # Transport mode
//
// With mode=transport there is no link. All that hosts send each other from their own addresses on the underlay is
// encrypted, and keeps its header of IP: what a tunnel sends that stands on it, as GRE or VXLAN. A packet is 20 or 40
// bytes shorter on the wire than in tunnel mode:
//
//	host 1                                                host 2
//	  gre2  198.19.2.1                                      gre1  198.19.2.2
//	    │ GRE from 198.18.0.1 to 198.18.0.2                   │ GRE
//	  up0 ──────── the same packet, GRE in ESP ───────────▸ up0
//
// Without a tunnel it is refused: what containers send has their addresses, and would go in plain. The outer packets of
// the tunnel must be of the family that is protected, and be sent by the kernel's IP. An eBPF program that sends them
// is behind the place where the kernel encrypts, so impl=ebpf is refused. It is by the kernel only, since libipsec of
// strongSwan knows no transport mode ("IPsec SA: unsupported mode").
//
// Packets from the address of another host are dropped unless they were encrypted. What strangers send to a host from
// addresses of their own is up to the tunnel, as it is without encryption.
//
// # What it protects
//
// Whoever sees or changes packets on the underlay can neither read what containers send to other hosts nor pretend to
// be a host to ipsec0: packets of ESP that were changed, repeated or sent by others are dropped. With cipher=null they
// can be read, but still not changed. Packets that no security association encrypts are never sent, also before the
// hosts have agreed on one, and after it is gone: the only routes to containers of other hosts lead to ipsec0. A plain
// packet for a container that comes from the underlay is forwarded, as by every encryption: that is for a filter.
//
// charon of strongSwan 5.9.8 ends when it receives a packet of ESP that ends behind its ICV, with nothing encrypted, if
// the cipher is aes-256-cbc or null. With an AEAD it drops the packet.
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
