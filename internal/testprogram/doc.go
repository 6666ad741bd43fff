// Package testprogram builds programs that tests start and that Debian lacks, from the Go module proxy. They are in
// modules of their own, so that nothing that they depend on is among what nettoll depends on. A program is built once:
// the next test finds it in the user's cache directory.
package testprogram
