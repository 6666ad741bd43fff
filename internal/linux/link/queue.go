package link

// A Queue holds packets that a link cannot send at once.
type Queue struct {
	// Kind is the queueing discipline at the root, with its name in tc(8): "noqueue", "pfifo_fast".
	Kind string
	// Length is how many packets the link reports that may wait (txqueuelen of ip-link(8)). A link without a queue
	// still has a length.
	Length int
}
