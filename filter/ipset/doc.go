// Package ipset is the filter "ipset": a hash of the kernel holds who may talk to whom at which port, and one rule of iptables for each direction
// asks it, however long the list is.
//
//	nettoll4, nettoll6   hash:ip,port,ip
//	    source, udp:PORT, sink            each port of a pair by itself
//	    source, tcp:PORT, sink
//	    source, icmp:echo-request, sink
//	    sink, icmp:echo-reply, source     (stateless)
//	    filler 0 … filler N-1
//
//	nettoll-forward
//	    source, port of the sink, sink is in the set    ACCEPT
//	    UDP: sink, its port, source is in the set       ACCEPT   (stateless)
//	    TCP: likewise, unless it opens a connection     ACCEPT   (stateless)
//
// The rest is as in the filter iptables: where the rules stand, that all else is dropped, and that fragments without ports pass by the addresses of
// the pairs where connections are not known, a rule for each.
package ipset
