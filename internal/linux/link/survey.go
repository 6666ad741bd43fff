package link

import "net/netip"

// A Survey holds the contents of a network namespace.
type Survey struct {
	Links  []Surveyed
	Routes []SurveyedRoute // shorter prefixes first, IPv4 before IPv6
}

// A Surveyed is a link with its relations to other links and its addresses, without IPv6 addresses of link scope.
type Surveyed struct {
	Link
	// Other is the index of its other end, or of the link below it; 0 for none.
	Other int
	// There is this namespace's id for the namespace of Other, -1 for this one: see [Handle.ID].
	There     int
	Addresses []netip.Prefix
}

// A SurveyedRoute is a route of any table.
type SurveyedRoute struct {
	Route
	// Table is its number; 0 for the main one.
	Table int
	// Kind is its type, 1 for forwarding packets (RTN_UNICAST, include/uapi/linux/rtnetlink.h).
	Kind int
}
