// Package text sets a run, or the comparison of two, for a terminal: sentences, tables that fit its width, and colours
// on request.
//
// The words come from package report; this one knows lines, columns and escape sequences.
package text
