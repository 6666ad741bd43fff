// Package pcapng writes captured frames to a file for tcpdump and Wireshark, in the PCAP Now Generic format,
// draft-ietf-opsawg-pcapng. A library for that would include dissectors for every protocol.
package pcapng
