package threat

// The attacks from the wire between hosts, in the order in which they are made.
const (
	// WireSniff: what containers send is looked for in every frame, in both directions, and while keys are renewed.
	WireSniff Attack = "wire-sniff"
	// WirePatterns: two equal packets look alike on the wire.
	WirePatterns Attack = "wire-patterns"
	// WireFlip: frames with other bits, so that checksums of what is inside stay right.
	WireFlip Attack = "wire-flip"
	// WireCut: frames of every length, and the largest packet there is.
	WireCut Attack = "wire-cut"
	// WireReplay: a frame once more: at once, later, and after new keys.
	WireReplay Attack = "wire-replay"
	// WireReorder: frames in the reverse order, each twice.
	WireReorder Attack = "wire-reorder"
	// WireStranger: packets made up from an address that no host has.
	WireStranger Attack = "wire-stranger"
	// WirePeer: packets made up from the address of the other host.
	WirePeer Attack = "wire-peer"
	// WirePlain: packets without what should carry or protect them.
	WirePlain Attack = "wire-plain"
	// WireHello: a key exchange by a stranger, who then sends packets.
	WireHello Attack = "wire-hello"
	// WireSilence: no frame passes for a while, in which keys are to be renewed.
	WireSilence Attack = "wire-silence"
	// WireWeaker: an offer of a weaker cipher.
	WireWeaker Attack = "wire-weaker"
)

// OnWire lists the attacks from the wire, in the order in which they are made.
func OnWire() []Attack {
	return []Attack{
		WireSniff, WirePatterns, WireFlip, WireCut, WireReplay, WireReorder, WireStranger, WirePeer, WirePlain, WireHello,
		WireSilence, WireWeaker,
	}
}
