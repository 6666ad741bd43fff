// Package encryption holds the kind of parts that protect packets between hosts. Each folder below is one encryption.
// It stands below a tunnel: what it is given and what it returns is a span, see [network.Span].
//
// [network.Span]: https://pkg.go.dev/github.com/nettoll/nettoll/network#Span
package encryption
