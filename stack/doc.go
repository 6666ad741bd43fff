// Package stack holds what is under test as data: kinds of parts, a stack as one choice of each kind, and the ids in
// which both are written. It knows no kind by name; the catalogue lists them, and each is in a folder of its own.
package stack
