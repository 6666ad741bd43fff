// Package encryption holds the kind of parts that protect packets between hosts. It has none yet.
package encryption
