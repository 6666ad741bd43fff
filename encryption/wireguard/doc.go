// Package wireguard is the encryption "wireguard": a WireGuard device on each host, wg0, that knows all other hosts as
// peers. What hosts send each other goes through it, encrypted, in UDP datagrams of the span below:
//
//	host1                                     host2
//	10.1.0.0/16 ── wg0 198.19.1.1             wg0 198.19.1.2 ── 10.2.0.0/16
//	                │                          │
//	             198.18.0.1 ── UDP 51820 ── 198.18.0.2
//
// The parameter impl says what encrypts:
//
//   - kernel: the device of the kernel.
//   - embedded: the library golang.zx2c4.com/wireguard in a process of nettoll itself, one for each host, which has a
//     TUN link. Large segments of TCP and UDP stay whole between the link and the process, and between the process and
//     the kernel's UDP (virtio-net headers, UDP GSO): devices on the way count such a segment as one packet.
//   - auto: the kernel's if it has one, else the embedded one. Records say which it was.
//
// The first packet makes a device ask its peer for keys. If the peer is not there yet, it asks again after 5 s
// (REKEY_TIMEOUT; WireGuard paper, section 6.1), and packets wait meanwhile. So nothing should be sent through wg0
// before all hosts have theirs. The tunnels here send nothing by themselves: their links take no part in multicast, or
// have no entry for it. One that floods, as a VXLAN with a default destination does with reports of multicast
// listeners, has its first packets wait.
//
// A peer may send from the addresses of its host alone: those of its containers, and its address on the span. There are
// no keepalives.
//
// Keys are in no plan, record or log. Each host derives the keys of all hosts of the lab from a secret that the lab is
// built with, see [host.Secret].
//
// Packets are padded to multiples of 16 bytes, but not beyond the MTU of wg0. The largest packet is therefore not
// padded, and the MTU is that of the span below less the overhead, of whatever remainder.
package wireguard
