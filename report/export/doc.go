// Package export writes a run, or the comparison of two, for programs: as CSV, JSON, JSON lines or JUnit XML.
//
// It exports figures and the words of records. Columns and keys never change; new ones are added at the end.
package export
