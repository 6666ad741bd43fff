package link

import "net/netip"

// A Survey is what there is in a network namespace.
type Survey struct {
	Links  []Surveyed
	Routes []SurveyedRoute // shorter prefixes first, of IPv4 and then of IPv6
}

// A Surveyed is a link, what it has to do with others, and its addresses but those of link scope of IPv6.
type Surveyed struct {
	Link
	// Other is the index of the link that it is the other end of, or that it stands on; 0 for none.
	Other int
	// There is how this namespace calls the one that Other is in, -1 for this one: see [Handle.ID].
	There     int
	Addresses []netip.Prefix
}

// A SurveyedRoute is a route of any table.
type SurveyedRoute struct {
	Route
	// Table is its number, 0 for the main one.
	Table int
	// Kind is its type, 1 where packets are sent on (RTN_UNICAST, include/uapi/linux/rtnetlink.h).
	Kind int
}
