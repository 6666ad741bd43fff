// Package report holds the views of a run: text, an HTML page, Markdown and figures for people, CSV and JSON lines for
// programs.
//
// A view reads records and their analysis and measures nothing. What may be concluded is decided in measure; a view
// only says it, and says with it what is doubtful: warnings, failed cells and proofs are part of each.
//
// The page and Markdown are written from one document of titled parts; sections that a caller brings along become parts
// too. The marks of a figure are chosen here (charts.go) and drawn by package figure.
package report
