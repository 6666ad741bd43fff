package detour

// Mark is the mark (skb->mark) of a frame that comes back from the TAP device, until the link has received it. No frame
// that comes from another network namespace has a mark (net/core/skbuff.c, skb_scrub_packet).
const Mark = 0x6e65746c // "netl"

// Ready is what [Serve] writes to control when its TAP device is up.
const Ready = "ready\n"

// Name is the name of the TAP device beside a port.
func Name(port string) string { return "d" + port }
