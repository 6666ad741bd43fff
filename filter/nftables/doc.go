// Package nftables is the filter "nftables": a table of nftables that drops what its list does not let pass. The list
// is written in one of three ways:
//
//	linear  a rule for each protocol of a pair, one behind the other; a decoy rule is one such rule, of UDP and of TCP by
//	        turns
//	set     one set of source . sink . port, which few rules look into, behind it a map of source . sink to a chain with
//	        the source's ports, and for what has no ports one set of source . sink; a decoy rule is one element of the
//	        first
//	map     a map of source . sink to a chain of the pair, in which the ports are rules; a decoy rule is one element, and
//	        its port's chain
//
// Sets and maps have exact keys, a range of ports as many elements as it has ports: those are hash tables of a fixed
// size (net/netfilter/nft_set_hash.c), in which every element is found as quickly however many there are. Intervals in
// keys of several fields would be one element for a pair, but in another kind of set (nft_set_pipapo.c), which is
// slower to load and to look into the more there are.
//
// Packets meet these tables:
//
//	inet    in the forward path, where bridged packets come by br_netfilter (filter.Frames drops the frames that do not),
//	        or input and output inside each container; on a host also input, where nothing that a container sends to the
//	        host passes but neighbour discovery, and answers where it is stateful
//	bridge  forwarded frames of the host's bridge; what is for the host meets a table inet at input, and what leaves for
//	        another host one in the forward path
//	netdev  packets that come in by the host's link to each container; none of those for the host itself passes
//
// A chain for each family has that family's rules and no others: packets of IPv4 do not meet the decoy rules of IPv6.
// Packets of connections pass before all of that where it is stateful. Neighbour discovery and ARP are asked for behind
// it, as nobody measures them.
package nftables
