package link

// A Queue is where packets wait that a link cannot take at once.
type Queue struct {
	// Kind is the queueing discipline at the root as tc(8) calls it: "noqueue", "pfifo_fast".
	Kind string
	// Length is how many packets the link says may wait (txqueuelen of ip-link(8)). What has no queue has a length all the
	// same.
	Length int
}
