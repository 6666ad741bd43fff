// Package tunnel holds the kind of parts that carry packets between hosts. Each folder below is one tunnel, and
// tunneltest is the conformance suite. What a tunnel is given and what it returns is a span: see [network.Span].
//
// [network.Span]: https://pkg.go.dev/github.com/nettoll/nettoll/network#Span
package tunnel
