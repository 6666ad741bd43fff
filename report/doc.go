// Package report holds what is said of a run, before anything is drawn: sentences, tables and sections for people, in
// plain texts.
//
// A report reads records and their analysis and measures nothing. What may be concluded is decided in measure; here it
// is only said, and with it what is doubtful: warnings, failed cells and proofs are part of each report.
//
// [Load] reads a run directory, [Read] sorts a run for people, and [Compare] puts two runs beside each other. A
// [Document] is a run as titled parts; sections that a caller brings along become parts too. The folders below draw it
// (text, markdown, page, and chart with figure), export it (export) and find a view by its name (view). None of them is
// imported here.
package report
