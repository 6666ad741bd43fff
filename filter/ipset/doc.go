// Package ipset is the filter "ipset": a hash of the kernel holds who may talk to whom at which port, and one rule of
// iptables for each direction asks it, however long the list is.
//
//	nettoll4, nettoll6   hash:ip,port,ip
//	    source, udp:PORT, sink            each port of a pair by itself
//	    source, tcp:PORT, sink
//	    source, icmp:echo-request, sink
//	    sink, icmp:echo-reply, source     (stateless)
//	    decoy rule 0 … decoy rule N-1
//
//	nettoll-forward
//	    source, port of the sink, sink is in the set    nettoll-sending
//	    UDP: sink, its port, source is in the set       nettoll-answering   (stateless)
//	    TCP: likewise, unless it opens a connection     nettoll-answering   (stateless)
//	nettoll-sending
//	    ICMP                                            ACCEPT
//	    UDP and TCP: source, its ports                  ACCEPT   for each source
//	nettoll-answering
//	    UDP and TCP: source, its ports                  ACCEPT   for each source, as destination
//
// The last two are rules, because no type of set holds a range of ports beside addresses. They are as many as the
// pairs, and not as the entries.
//
// The rest is as in the filter iptables: where the rules stand, that all else is dropped, and that fragments without
// ports pass by the addresses of the pairs where connections are not known, a rule for each.
package ipset
