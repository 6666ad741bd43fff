// Package page writes a run as one HTML page that needs nothing else: no script, no font, no image, no network.
//
// The words come from package report and the figures from report/chart; this one knows HTML and the style sheet.
package page
