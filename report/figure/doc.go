// Package figure draws: a figure is a list of lines, areas, symbols and texts, written as SVG for pages or as PNG for
// everything else.
//
// A figure names its inks (text, grid, series 3, …) instead of colours, so that the same marks are drawn light, dark
// and in print: in a page the style sheet says what an ink is, on their own figures carry the light colours. Series
// differ in dashes and symbols too, for those who cannot tell the colours apart.
package figure
