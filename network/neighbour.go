package network

// learning is how many containers of a lab may learn where their neighbours are. The table of neighbours is one for the whole machine, those of all namespaces in it, and forgets what it
// needs from 1,024 entries on (gc_thresh3, net/ipv4/arp.c); permanent ones do not count. Each container has two for each family: its own, and its host's for it.
const learning = 200

// Permanent says whether the containers of the lab and their hosts have permanent entries for each other, see [host.Neighbour].
func (l Lab) Permanent() bool {
	n := 0
	for _, h := range l.Hosts {
		n += len(h.Containers)
	}
	return n > learning
}
