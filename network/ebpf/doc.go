// Package ebpf is the network "ebpf": a veth to every container, and an eBPF program on the host's end of each that
// forwards past the host's stack, as Cilium does.
//
//	 src0          src1     10.1.1.0/32                snk0     10.2.1.0/32
//	 eth0          eth0     default via 10.1.0.1       eth0     default via 10.2.0.1
//	  │             ▲                                   ▲
//	  │   redirect  │                                   │ redirect
//	vsrc0 ──────────┘                                  vsnk0
//	  └┄┄┄ redirect ┄┄┄▸ up0 ────── underlay ────── up0 ┘
//
// A container has one address of each family and its host as the router, at addresses that are on the host's loopback
// link; where that is, the container knows for good. The program looks the destination of a packet up among the
// containers of its host, in a hash, and then among the ranges of the other hosts, in a trie. It takes one from the
// time to live, as any router, writes the MAC addresses of the next link, and sends the packet on:
//
//   - to a container of the same host by bpf_redirect_peer: it is received at once on the container's own link, and
//     neither on the host's end nor by way of the queue of packets that a veth otherwise hands to the receiving CPU;
//   - to another host by bpf_redirect_neigh: out of the uplink, to where the host is by the kernel's neighbour table.
//     There the same program is on the uplink, and redirects into the container. On an uplink without Ethernet
//     frames, such as a tunnel of layer 3, it is another program, which first gives packets the header of a frame.
//
// The program leaves other packets to the host's stack: those for the host itself and for nobody, broadcasts, packets
// whose time to live is at its end, and packets that are larger than the MTU of the uplink. The stack answers the last
// two, or cuts what is too large. It has routes to all containers and all ranges, and forwards: without the program, a
// host is that of the network "routed".
//
// It counts each packet that it sends on, in a variable for each CPU: 2 ns of 1.6 µs where it was tried
// (BPF_PROG_TEST_RUN, the programs before and after in turn, 26 November 2026). Proofs need that.
//
// # Where it is hooked
//
//   - attach=tcx: on tcx, Linux 6.6 and newer. The kernel waits a grace period of RCU for each link that is hooked and
//     for each that goes, about 8 ms at HZ=250, while nobody else configures a network (kernel/bpf/tcx.c,
//     tcx_entry_sync): a thousand containers take 8 s to come, and as long to go.
//   - attach=tc: the same program at the same place, by a classifier of tc on a queueing discipline of type clsact, as
//     Cilium does on older kernels. Nobody waits for that: a thousand take a tenth of a second. Each packet has a few
//     steps more to take: some 50 ns of 1.6 µs where it was tried.
//   - attach=auto: tcx, but tc in labs of more than 200 containers, and where the kernel has no tcx. The record says
//     which it was.
//   - attach=xdp: in the driver of each veth, before there is a socket buffer, to the link of a container of the same
//     host (bpf_redirect). What the driver sends on has no notes beside the bytes of the frame: the containers sum up
//     themselves what they send, and so cut their streams into packets themselves, and receive by NAPI (GRO). Labs of
//     several hosts are left out: the other end of the uplink, which is not a container's, would have to receive so
//     too.
//   - attach=netkit: netkit links instead of veths, Linux 6.7 and newer. The program is the host's, but runs where the
//     container sends, and sends the packet out of the link of the other (bpf_redirect): what is being sent cannot be
//     redirected to a peer. From the uplink, packets go in as with tcx.
//
// # Beside a bridge
//
// On one host of two virtual CPUs, Linux 6.18, nothing else running, one pair, nettoll 5239686 on 22 November 2026: an
// experiment with networks bridge (the baseline) and ebpf, placement same-host, workloads udp-rr of 28 bytes, udp-rate
// of 64, tcp-stream and tcp-rr, 132 s, 100 blocks in 17 generations. Ratios over the bridge with their 95 % intervals:
// datagrams ×1.16 [1.15, 1.17] with 14 % less CPU time each; round trips of UDP and TCP no different above a floor of 3
// %; a single stream of TCP ×0.96 [0.95, 0.97]. The last one surprises, as forwarding takes less, and why it is so is
// not known. Of one run each of 4 s, "nettoll source tcp-stream(congestion=cubic)" in such a lab, samples of the
// sending CPU (perf, cpu-clock) had the bridge's functions gone, and 44 % instead of 40 % in _copy_from_iter, which
// copies what the program sends. With receive buffers that were set there was no difference above floors of 5 % at 256
// KiB and 4 MiB, and at 128 KiB, 512 KiB and 1 MiB it was not known precisely enough.
//
// # Where it can be filtered
//
// A filter on tcx is hooked to the same ingress as the program and before it, under attach=tc as well, as tcx comes
// first: it drops what it refuses (TCX_DROP) and leaves the rest to the next (TCX_NEXT). It decides at the source's
// link, and for what comes from other hosts at the uplink. The egress of a container's link sees only what the host
// itself sends there: bpf_redirect_peer goes past it.
package ebpf
