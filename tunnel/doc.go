// Package tunnel holds the kind of parts that carry packets between hosts. It has none yet.
package tunnel
