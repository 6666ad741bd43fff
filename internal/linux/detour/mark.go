package detour

// Mark is the mark (skb->mark) of a frame that comes back from the TAP device, until the link has received it. A frame
// from another network namespace has no mark (net/core/skbuff.c, skb_scrub_packet).
const Mark = 0x6e65746c // "netl"

// Name returns the name of the TAP device of a port.
func Name(port string) string { return "d" + port }
