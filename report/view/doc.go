// Package view shows a run, or the comparison of two, in a format that a user names: it is the way from the command
// line to the packages that draw and export.
package view
