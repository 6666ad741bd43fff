// Package figure draws figures. A figure is a list of lines, areas, symbols and texts. It is written as SVG into a
// page, or as SVG, PNG or PDF into a file of its own.
//
// A figure names its inks (text, grid, series 3, …) instead of colours, so that the same marks fit light and dark
// screens and print. In a page, the style sheet defines the inks; figures in files have the light colours. Series also
// differ in dashes and symbols, for readers who cannot distinguish the colours.
package figure
