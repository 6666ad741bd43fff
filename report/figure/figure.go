package figure

import (
	"strings"
)

// Figure is a drawing with its description. Lengths are in CSS pixels; y points downward from the upper left corner.
type Figure struct {
	Name          string // name of its file, without the ending: lower-case ASCII letters, digits and hyphens
	Kind          string // the kind of figures that it belongs to
	Title         string // the heading
	Description   string // the contents in words, for readers who cannot see the figure
	Width, Height float64
	Marks         []Mark // in the order in which they are drawn
}

// Mark is a Line, Area, Symbol or Text.
type Mark interface {
	svg(p *pen)
	png(p *painter)
	pdf(s *sheet)
}

// Point is a place in a figure.
type Point struct{ X, Y float64 }

// Ink is the name of a colour.
type Ink string

// Inks. For those of series, see [Series].
const (
	InkText  Ink = "t"
	InkMuted Ink = "m" // axes and their numbers
	InkGrid  Ink = "g"
	InkBand  Ink = "b" // areas behind everything
	InkPaper Ink = "p" // the inside of hollow symbols
	InkGood  Ink = "good"
	InkBad   Ink = "bad"
	InkDoubt Ink = "doubt"
)

// inks is the number of inks of series. From this many series on, inks repeat, with other dashes and symbols.
const inks = 8

// Series returns the ink of series i; 0 is the baseline.
func Series(i int) Ink { return Ink("s" + string(rune('0'+i%inks))) }

// Dashes returns the dashes of series i: drawn and skipped lengths in turn; nil is a solid line. No two of the first 32
// series share both ink and dashes.
func Dashes(i int) []float64 {
	return [][]float64{nil, {7, 3}, {2, 3}, {9, 3, 2, 3}}[(i+i/inks)%4]
}

// Shape is the outline of a symbol.
type Shape int

// Shapes.
const (
	Circle Shape = iota
	Square
	Diamond
	Triangle
	Cross
)

// ShapeOf returns the shape of a series.
func ShapeOf(i int) Shape { return Shape(i % 5) }

// Line is a line through points.
type Line struct {
	Points []Point
	Ink    Ink
	Width  float64
	Dashes []float64 // drawn, skipped, drawn …; nil is solid
}

// Area is a filled polygon. If Rim is not 0, it has an outline of that width and a fainter inside.
type Area struct {
	Points []Point
	Ink    Ink
	Rim    float64
}

// faint is the opacity of the inside of an area with a rim.
const faint = 0.22

// Symbol marks a point.
type Symbol struct {
	At     Point
	Shape  Shape
	Radius float64
	Ink    Ink
	Hollow bool
}

// rim is the width of the outline of a hollow symbol and of the strokes of a cross.
const rim = 1.6

// Anchor is the part of a text that is at its place.
type Anchor string

// Anchors.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Text is a line of text.
type Text struct {
	At     Point // on the baseline of the text
	Text   string
	Ink    Ink
	Size   float64
	Bold   bool
	Anchor Anchor // "" is Start
	Up     bool   // reads upward
	Whole  string // the text before it was shortened, shown when pointed at; "" if it was not shortened
}

// Rect returns the area of a rectangle with two given corners.
func Rect(x0, y0, x1, y1 float64, ink Ink) Area {
	return Area{Points: []Point{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}, Ink: ink}
}

// Breadth returns the approximate width of a text at a size, for any sans-serif font.
func Breadth(text string, size float64, bold bool) float64 {
	n := 0.0
	for _, r := range text {
		switch {
		case strings.ContainsRune("iljtfI.,:;|!'()[] /", r):
			n += 0.36
		case strings.ContainsRune("mwMW%@", r):
			n += 0.9
		case r >= 'A' && r <= 'Z':
			n += 0.7
		default:
			n += 0.58
		}
	}
	if bold {
		n *= 1.07
	}
	return n * size
}

// Shorten returns a text of at most the given breadth. A longer one gets an ellipsis in the middle, because names of
// stacks differ at either end.
func Shorten(text string, size float64, bold bool, breadth float64) string {
	if Breadth(text, size, bold) <= breadth {
		return text
	}
	runes := []rune(text)
	for keep := len(runes) - 1; keep > 1; keep-- {
		tail := keep / 2
		short := string(runes[:keep-tail]) + "…" + string(runes[len(runes)-tail:])
		if Breadth(short, size, bold) <= breadth {
			return short
		}
	}
	return "…"
}
