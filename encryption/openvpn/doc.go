// Package openvpn is the encryption "openvpn": Debian's OpenVPN 2.6, a process and a TUN link on each host for each
// other host. OpenVPN joins two ends and knows no mesh. Packets to a host go through the link to it, encrypted, in UDP
// datagrams of the span below:
//
//	host1                                          host2
//	10.1.0.0/16 ── ovpn2 198.19.1.1    198.19.1.2 ovpn1 ── 10.2.0.0/16
//	                 │                              │
//	              198.18.0.1 ──── UDP 1194 ──── 198.18.0.2
//
// Both ends of a pair of hosts use the same UDP port, and a host uses another one for each other host: 1194 between
// hosts 1 and 2, and no more ports than there are hosts.
//
// # What it protects
//
// Nobody on the span below can read, change, forge or repeat packets. The parameter cipher says how:
//
//   - aes-256-cbc: AES-256 in CBC mode with HMAC-SHA1, the suite of SeCoNetBench. Packets are padded to blocks of 16
//     bytes. The HMAC does not cover the peer id, three bytes of the header that the receiver ignores.
//   - aes-256-gcm, aes-128-gcm, chacha20-poly1305: the tag covers the header, too. Packets are not padded.
//
// Keys come from a TLS 1.3 handshake with X25519 and end with the processes: whoever learns the secret of the lab later
// cannot read packets that were captured before. OpenVPN agrees on new keys after an hour (reneg-sec). Each end accepts
// only the certificate of the other end, by its fingerprint. tls-crypt encrypts handshakes with a key that is derived
// from that secret, and TLS never sees a packet of a stranger.
//
// # What it does not protect
//
//   - An observer sees which hosts talk to each other, when, how much, and how long each packet is.
//   - An attacker on the span below can drop and delay packets.
//   - A packet that arrives after 64 later ones is dropped, because it could be a repetition (replay-window).
//   - Root on a host reads everything.
//
// # How it runs
//
// There is no data channel offload (DCO): OpenVPN 2.6 needs a module for that which is not part of Linux, and it has no
// CBC mode. Each packet passes the process, which has one thread. OpenVPN compresses and fragments nothing. Packets on
// the span below have Don't Fragment set and are not larger than its MTU.
//
// Settings for speed: fast-io saves a system call for each packet written; TCP was about a tenth faster with it on an
// idle machine. Sockets buffer 1 MiB each way, if the kernel allows that, so that bursts can wait for the process. The
// link queues 500 packets, as TUN links do by default: with 1000, TCP was no faster, and round trips beside it took
// twice as long.
//
// No key is in a plan, record, log, argument or file. Each host derives the private keys of all hosts of the lab from a
// secret that the lab is built with, see [host.Secret]. The process reads its own from its standard input.
//
// The host with the lower number is the TLS server, which waits. The other end asks again after a second, and begins
// anew every three seconds until it gets an answer. Applying the step does not wait for the other host, which may be
// built later; verifying it does. Until the handshake is done, a process drops packets, and never sends them in plain.
package openvpn
