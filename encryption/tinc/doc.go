// Package tinc is the encryption "tinc": tinc 1.0, as Debian packages it, in a process on each host, with a TUN link,
// tinc0. Each host is connected to all others. Packets between hosts go through it, encrypted, in UDP datagrams of
// the span below:
//
//	host1                                        host2
//	10.1.0.0/16 ── tinc0 198.19.1.1              tinc0 198.19.1.2 ── 10.2.0.0/16
//	                 │                             │
//	             198.18.0.1 ── UDP and TCP 655 ── 198.18.0.2
//
// Two hosts first make a TCP connection, which tinc's manual calls the meta connection. Over it they exchange the
// keys of packets, new ones every hour. [Daemon.Verify] waits until every host has had an answer over each of its
// connections. So no packet has to wait for a key.
//
// # What a packet is
//
// After IP and UDP come a sequence number (4 bytes), an Ethernet header whose addresses are zero (14), the IP packet
// and 1 to 16 bytes of padding, all of it encrypted, and a MAC of 16 bytes. The largest packet has one byte of
// padding. Debian builds tinc without support for jumbo frames, so the MTU is 1501 bytes at most.
//
// # What it protects
//
// Someone who reads on the underlay learns which hosts talk to each other, when, and the length of packets in steps
// of 16 bytes. tinc drops packets that were changed, repeated or made up. Each host proves who it is by an RSA key of
// 2048 bits. All hosts derive the keys of all from the lab's secret, see [host.Secret], and could do with one key.
// But then an attacker could send the messages of a host back to it as those of another host. The private key is in a
// file of the host (mode 0600) until the program has read it.
//
// tinc encrypts all packets from the same initialization vector. CBC allows that here: the first block of a packet is
// its sequence number and the twelve zeros of the addresses, which never repeats under one key. Encrypted, it serves
// the rest of the packet as a vector that nobody can foresee (NIST SP 800-38A, appendix C). Two equal packets look
// different.
//
// # What it does not protect
//
// tinc 1.0 is an old program, and nettoll has it to measure it:
//
//   - A host of the lab may send packets from any address. It does not get packets of others: ranges come from the
//     files alone (TunnelServer), and no host passes on packets that are not for it (Forwarding, DirectOnly).
//   - The meta connection, AES-256 in CFB mode, has no MAC. Someone who changes its bytes can break it, or flip bits
//     of its messages: by the source, also of the number of the cipher, so that a host encrypts by one of those below
//     (not tried). Since 1.0.35 that cannot turn off encryption (CVE-2018-16758), and nobody gets in without a key
//     (CVE-2018-16737, CVE-2018-16738). There is no forward secrecy: the private keys open what was recorded before.
//   - The MAC of a packet has 16 bytes here. The default of tinc has 4. The key of the cipher is part of the key of
//     the MAC.
//   - Ciphers with blocks of 64 bits, such as Blowfish, the default until 1.0.29, leak after some 32 GiB (Sweet32).
//     There is no such cipher here.
//
// # Ciphers that are refused
//
// tinc takes every cipher that OpenSSL knows by name, and uses it as if it were CBC. This was seen on the wire with
// tinc 1.0.36 and OpenSSL 3.0.19. TestRefused shows the first two:
//
//   - aes-256-gcm, which SeCoNetBench names as the cipher of its tinc. tinc neither sets the vector for a second
//     packet nor handles the tag. So OpenSSL refuses to encrypt any packet but the first, and to decrypt any. With
//     tinc's own settings, packets then go over the meta connection: TCP, AES-256 in CFB mode, no MAC. The paper had
//     tinc 1.0.24 and an older OpenSSL, which were not tried.
//   - aes-256-ofb: all packets have the same key stream. The XOR of two packets on the wire is the XOR of the packets
//     themselves.
//   - aes-256-ctr: OpenSSL goes on counting from packet to packet. Both ends agree until the first packet is lost.
//     From then on nothing can be decrypted until there are new keys.
package tinc
