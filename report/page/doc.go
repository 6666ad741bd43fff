// Package page writes a run as one HTML page that needs nothing else: no script, no font, no image, no network.
//
// What is said comes from package report and the figures from report/chart; this one knows HTML and its style sheet.
package page
