// Package iptables is the filter "iptables": one rule after another, for both families, loaded in one go by the
// programs of either variant, which speak to ip_tables (legacy) or to nf_tables (nft).
//
//	FORWARD        policy DROP
//	               packets of known connections        ACCEPT   (stateful)
//	               neighbour discovery                 ACCEPT   (IPv6, at a bridge and in a container)
//	               nettoll-forward
//	                 decoy rule 0 … decoy rule N-1     ACCEPT   (none matches; or behind the others)
//	                 source, sink, UDP, its ports      ACCEPT
//	                 source, sink, TCP, its ports      ACCEPT
//	                 and for the answers, stateless:
//	                 sink, source, UDP, from its ports ACCEPT
//	                 sink, source, TCP, from its ports ACCEPT   (what opens no connection)
//	                 source, sink, echo requests …     ACCEPT
//	               nettoll-fragments                            (stateless; fragments only)
//	                 source, sink; sink, source        ACCEPT
//	               DROP
//	INPUT          policy DROP, for what is for the host itself
//	               from the uplink                     ACCEPT   (what other hosts send)
//	               packets of known connections        ACCEPT   (stateful: answers to the host)
//	               from the loopback link              ACCEPT
//	               neighbour discovery                 ACCEPT   (IPv6)
//	               DROP
//
// At a bridge br_netfilter hands bridged packets to FORWARD, which is where packets for other hosts come along too;
// frames that it does not hand on are dropped (filter.Frames). Inside a container INPUT and OUTPUT stand for FORWARD,
// each with those rules that are about the container.
package iptables
