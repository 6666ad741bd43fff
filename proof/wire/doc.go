// Package wire attacks a lab as it stands from the underlay between its hosts, as somebody on the wire would, and
// counts at the receiver what arrives.
//
// The bridge of the underlay is set down and a relay takes its place: each frame of a host passes it, and it can keep,
// change, repeat, hold back and make up frames. Frames leave only by ports of that bridge. When the attacks are over
// the bridge is up again.
//
// The package knows no tunnel and no encryption: how packets look on the wire, and below each layer of the receiver, it
// learns from packets that carry a mark. What is claimed of them ([Guards], and [Target.Claims] of tunnels) comes from
// the parts. A lab without encryption shows that an attack works at all: an attack that does not succeed there shows
// nothing elsewhere.
package wire
