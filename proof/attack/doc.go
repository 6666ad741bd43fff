// Package attack attacks a lab as it stands, from inside its containers, with packets that no honest socket sends, and
// counts at the receivers what arrives.
//
// An attack is a family of tries. Each try is a packet, or one for every port there is, that carries a number of its
// own; every container and every host has a tap that looks for such numbers. Where the filter decides before a packet
// reaches a container's link the tap is at the link; where it stands inside the container it is behind the filter, at
// raw sockets. What a lab without a filter lets arrive shows that a try works at all: an attack that does not succeed
// there shows nothing elsewhere.
//
// A claim about what a filter's list decides ([Hold]) is tried with the same packets and taps, and by sockets: some
// packets have to arrive, and others must not. It gives one record.
//
// The package knows no network and no filter: a lab is where its containers are, which of them may talk, and what is
// claimed of the rest ([Target], [Rules]).
package attack
