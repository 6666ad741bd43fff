// Package pcapng writes captured frames as a file that tcpdump and Wireshark read: the PCAP Now Generic format,
// draft-ietf-opsawg-pcapng. A library would bring a dissector of every protocol with it.
package pcapng
