// Package report holds the words of reports before anything is drawn: sentences, tables and sections for people, as
// plain text.
//
// A report reads records and their analysis, and measures nothing. Package measure draws the conclusions; this one puts
// them into words, together with the doubts: warnings, failed cells and proofs are part of each report.
//
// [Load] reads a run directory, [Read] sorts a run by groups, and [Compare] compares two runs. A [Document] is a run as
// titled parts; sections of the caller become parts too. The folders below draw it (text, markdown, page, and chart
// with figure), export it (export) and find a view by its name (view). This package imports none of them.
// imported here.
package report
