// Package report holds the views of a run: the table for people, CSV and JSON lines for programs.
//
// A view reads records and their analysis and measures nothing. What may be concluded is decided in measure; a view only says it,
// and says with it what is doubtful: warnings, failed cells and proofs are part of each.
package report
