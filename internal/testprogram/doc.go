// Package testprogram builds programs that tests start and that Debian lacks, from the Go module proxy. What they depend
// on is in modules of their own, so that nothing of it is among what nettoll depends on. A program is built once: the
// next test finds it in the user's cache directory.
package testprogram
