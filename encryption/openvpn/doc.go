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
//     bytes. The HMAC does not cover the peer id, three bytes that tell no secret and that a receiver here ignores.
//   - aes-256-gcm, aes-128-gcm, chacha20-poly1305: the tag covers the header too, and nothing is padded.
//
// Keys come from a TLS 1.3 handshake with X25519, so they are lost with the processes: who learns the lab's secret later
// cannot read packets that were captured before. New ones are agreed on after an hour (OpenVPN's reneg-sec). Each end
// takes only the certificate of the other one, which it knows by its fingerprint. tls-crypt encrypts the handshake too;
// a process drops a packet of a stranger before TLS sees it.
//
// # What it does not protect
//
//   - Who talks to whom among the hosts, when, how much, and in packets of which length, can be seen. Packets are not
//     padded to one length.
//   - A packet is refused as a repetition if it is one, or if 64 later packets have arrived before it (OpenVPN's
//     replay-window): such late packets are lost.
//   - An attacker on the span below can drop packets.
//   - Root on a host reads everything.
//
// # How it runs
//
// There is no data channel offload (DCO): OpenVPN 2.6 needs a kernel module for that which Linux does not have, and it
// has no CBC mode. Each packet passes the process, which is single-threaded. No packet is compressed or fragmented by
// OpenVPN. Packets on the span below have Don't Fragment set and are never larger than its MTU.
//
// Settings for speed: fast-io saves a system call for each packet written (TCP was 8 to 18 % faster in a trial of three
// streams each), and sockets buffer 1 MiB each way if the
// kernel allows that, where bursts wait for the process. The link queues 500 packets, as TUN links do by default: with 1000, a TCP stream was no faster on
// the reference machine, and round trips beside it took twice as long.
//
// No key is in a plan, record, log, argument or file. Each host derives the private keys of all hosts of the lab from a
// secret that the lab is built with, see [host.Secret], and hands its own to the process over its standard input.
//
// The host with the lower number is the TLS server: it waits. The other end asks, each second anew until it is answered.
// The step does not wait for its peer when it is applied, since that may be built later. It does when it is verified.
// Until the handshake is done a process drops packets; it never sends them in plain.
package openvpn
