// Package export writes a run, or the comparison of two, for programs: CSV, JSON and JSON lines.
//
// It exports figures and the words of records. Columns and keys stay: new ones are added at the end.
package export
