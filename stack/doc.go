// Package stack holds the stack under test as data: kinds of parts, a stack with one choice of each kind, and the ids
// of both. It knows no kind by name. The catalogue lists the kinds, and each has a folder of its own.
package stack
