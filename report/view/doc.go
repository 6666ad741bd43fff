// Package view shows a run, or the comparison of two, in a format that a user names. It connects the command line with
// the packages that draw and export.
package view
