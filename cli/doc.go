// Package cli is the command line: it turns arguments into calls of the layers below and their results into output and
// an exit status.
package cli
