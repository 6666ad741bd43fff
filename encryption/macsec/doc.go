// Package macsec is the encryption "macsec": a MACsec device of the kernel (IEEE 802.1AE) on each host, macsec0, on the
// link to the underlay. What hosts send each other goes through it, encrypted, in Ethernet frames of the underlay:
//
//	host 1                                            host 2
//	  macsec0  198.19.1.1/24, fd00:198:19:1::1/64       macsec0  198.19.1.2/24, fd00:198:19:1::2/64
//	    │                                                 │
//	  up0 ──────── EtherType 0x88e5 on the underlay ────▸ up0
//
// It is a span of layer 2, and it needs one below: it protects frames, and stands on the underlay alone.
//
// # Keys
//
// There is no key agreement (MKA, IEEE 802.1X). Each host has one key that it sends with, derived from the secret of
// the lab, by which all others receive from it: what protects from others does not protect hosts from each other. Keys
// stay the same as long as the lab stands. With gcm-aes-128 and gcm-aes-256 a host stops sending after 2³² packets;
// with extended numbers (gcm-aes-xpn-128, gcm-aes-xpn-256) that is after 2⁶⁴.
//
// The kernel tells nobody a key that it was given, only a name of it. Verify compares the names: a key that was
// exchanged by somebody who gave it the same name shows by packets that no longer pass.
//
// # What it protects
//
// Whoever sees or changes frames on the underlay can neither read what containers send to other hosts nor pretend to be
// a host: frames that were changed or sent by others are dropped. Frames have the addresses of the hosts' links to the
// underlay, and how long they are and when they are sent can be seen.
//
// A frame that is repeated is dropped if it is late by more packets than the parameter window says. MACsec knows the
// highest number that has come, and does not know which of the lower ones have (IEEE 802.1AE-2018, section 10.6): with
// a window it takes late frames, and repeated ones, too. With window=0 no frame is taken twice, but one is lost that
// another has overtaken, as happens when several processors send at the same time. The default, 1024, is about what may
// wait in the kernel for one processor (net.core.netdev_max_backlog) while others go on.
//
// # What it needs
//
// The kernel option CONFIG_MACSEC (module macsec), and the right to set keys, which root of a user namespace does not
// have.
package macsec
