// Package text sets a run, or the comparison of two, for a terminal: sentences, tables that fit its width, and colours
// if they are asked for.
//
// What is said comes from package report; this one knows lines, columns and escape sequences.
package text
