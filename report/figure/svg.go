package figure

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Style is the style sheet of the inks: as CSS variables (--ink-text …), whose values [Light] and [Dark] are.
// Everything a mark needs beyond its geometry stands here once instead of in every mark.
func Style() string {
	var b strings.Builder
	for _, i := range palette() {
		fmt.Fprintf(&b, ".k-%s{color:var(--k-%s)}", i.ink, i.ink)
	}
	b.WriteString(".k-l{fill:none;stroke:currentColor;stroke-linejoin:round}.k-a,.k-x{fill:currentColor}")
	b.WriteString(".k-r{fill:currentColor;fill-opacity:.22;stroke:currentColor}")
	b.WriteString(".k-h{fill:var(--k-p);stroke:currentColor;stroke-width:1.6}")
	return b.String()
}

// Light returns the inks on white paper as declarations of CSS variables.
func Light() string { return variables(func(c colour) string { return c.light }) }

// Dark returns the inks on dark paper.
func Dark() string { return variables(func(c colour) string { return c.dark }) }

func variables(of func(colour) string) string {
	var b strings.Builder
	for _, c := range palette() {
		fmt.Fprintf(&b, "--k-%s:%s;", c.ink, of(c))
	}
	return b.String()
}

type colour struct {
	ink         Ink
	light, dark string
}

// palette is that of M. Okabe and K. Ito (Color Universal Design, 2008), darkened on white and lightened on black until
// each stands out from its paper by 3:1 or more (WCAG 2.2, 1.4.11), the inks of texts by 4.5:1. Their yellow has become
// an olive: there is no readable yellow on white.
func palette() []colour {
	return []colour{
		{InkText, "#1b1f24", "#e6e8eb"},
		{InkMuted, "#59636e", "#a0a8b1"},
		{InkGrid, "#dfe3e8", "#33393f"},
		{InkBand, "#e3e7ec", "#363d45"},
		{InkPaper, "#ffffff", "#16191d"},
		{InkGood, "#00699e", "#5cb8ee"},
		{InkBad, "#b34700", "#f2914f"},
		{InkDoubt, "#6b5d00", "#d6bd4c"},
		{Series(0), "#1b1f24", "#e6e8eb"},
		{Series(1), "#0072b2", "#56b4e9"},
		{Series(2), "#d55e00", "#f2914f"},
		{Series(3), "#00875f", "#2fc79a"},
		{Series(4), "#b0578a", "#e39ac4"},
		{Series(5), "#b07500", "#e6a524"},
		{Series(6), "#3d8fc9", "#a3d8f7"},
		{Series(7), "#857a00", "#f0e442"},
	}
}

// SVG returns a figure as an element to stand in a page that holds [Style] and the variables it needs. The id is that
// of the element in the page: the title and the description are told apart by it.
func (f Figure) SVG(id string) string {
	var b strings.Builder
	f.open(&b, id, "")
	f.body(&b)
	return b.String()
}

// WriteSVG writes a figure as a file of its own, with the light colours.
func (f Figure) WriteSVG(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	f.open(&b, "figure", fmt.Sprintf(` xmlns="http://www.w3.org/2000/svg" width="%s" height="%s"`, coordinate(f.Width),
		coordinate(f.Height)))
	fmt.Fprintf(&b, "<style>:root{%s}svg{font-family:Helvetica,Arial,sans-serif}%s</style>", Light(), Style())
	rect(0, 0, f.Width, f.Height, InkPaper).svg(&b)
	f.body(&b)
	b.WriteByte('\n')
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write svg: %w", err)
	}
	return nil
}

func rect(x0, y0, x1, y1 float64, ink Ink) Mark { return Rect(x0, y0, x1, y1, ink) }

func (f Figure) open(b *strings.Builder, id, attributes string) {
	fmt.Fprintf(b, `<svg%s viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		attributes, coordinate(f.Width), coordinate(f.Height), id, id, id, escape(f.Title), id, escape(f.Description))
}

func (f Figure) body(b *strings.Builder) {
	for _, m := range f.Marks {
		m.svg(b)
	}
	b.WriteString("</svg>")
}

// escape makes a text one of XML and HTML. Characters that XML does not allow are replaced (XML 1.0, section 2.2).
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(s)
}

// coordinate prints a length with a tenth of a pixel.
func coordinate(x float64) string {
	s := strconv.FormatFloat(x, 'f', 1, 64)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

func path(b *strings.Builder, points []Point, end string) {
	b.WriteString(` d="`)
	for i, p := range points {
		b.WriteString([]string{"M", "L"}[min(i, 1)])
		b.WriteString(coordinate(p.X))
		b.WriteByte(' ')
		b.WriteString(coordinate(p.Y))
	}
	b.WriteString(end + `"/>`)
}

func (l Line) svg(b *strings.Builder) {
	fmt.Fprintf(b, `<path class="k-l k-%s" stroke-width="%s"`, l.Ink, coordinate(l.Width))
	if l.Dashes != nil {
		var d []string
		for _, x := range l.Dashes {
			d = append(d, coordinate(x))
		}
		fmt.Fprintf(b, ` stroke-dasharray="%s"`, strings.Join(d, " "))
	}
	path(b, l.Points, "")
}

func (a Area) svg(b *strings.Builder) {
	if a.Rim > 0 {
		fmt.Fprintf(b, `<path class="k-r k-%s" stroke-width="%s"`, a.Ink, coordinate(a.Rim))
	} else {
		fmt.Fprintf(b, `<path class="k-a k-%s"`, a.Ink)
	}
	path(b, a.Points, "Z")
}

func (s Symbol) svg(b *strings.Builder) {
	class := "k-a"
	if s.Hollow {
		class = "k-h"
	}
	switch s.Shape {
	case Circle:
		fmt.Fprintf(b, `<circle class="%s k-%s" cx="%s" cy="%s" r="%s"/>`, class, s.Ink, coordinate(s.At.X),
			coordinate(s.At.Y), coordinate(s.Radius))
	case Cross:
		for _, l := range s.strokes() {
			l.svg(b)
		}
	default:
		fmt.Fprintf(b, `<path class="%s k-%s"`, class, s.Ink)
		path(b, s.outline(), "Z")
	}
}

func (t Text) svg(b *strings.Builder) {
	fmt.Fprintf(b, `<text class="k-x k-%s" x="%s" y="%s" font-size="%s"`, t.Ink, coordinate(t.At.X), coordinate(t.At.Y),
		coordinate(t.Size))
	if t.Bold {
		b.WriteString(` font-weight="600"`)
	}
	if t.Anchor != "" && t.Anchor != Start {
		fmt.Fprintf(b, ` text-anchor="%s"`, t.Anchor)
	}
	if t.Up {
		fmt.Fprintf(b, ` transform="rotate(-90 %s %s)"`, coordinate(t.At.X), coordinate(t.At.Y))
	}
	b.WriteByte('>')
	if t.Whole != "" {
		b.WriteString("<title>" + escape(t.Whole) + "</title>")
	}
	b.WriteString(escape(t.Text) + "</text>")
}

// outline is the polygon of a symbol, of about the same area for each shape.
func (s Symbol) outline() []Point {
	x, y, r := s.At.X, s.At.Y, s.Radius
	switch s.Shape {
	case Square:
		r *= 0.89
		return []Point{{x - r, y - r}, {x + r, y - r}, {x + r, y + r}, {x - r, y + r}}
	case Diamond:
		r *= 1.25
		return []Point{{x, y - r}, {x + r, y}, {x, y + r}, {x - r, y}}
	case Triangle:
		r *= 1.15
		return []Point{{x, y - r}, {x + r, y + 0.8*r}, {x - r, y + 0.8*r}}
	case Circle, Cross:
	}
	return nil
}

func (s Symbol) strokes() []Line {
	x, y, r := s.At.X, s.At.Y, 0.85*s.Radius
	return []Line{
		{Points: []Point{{x - r, y - r}, {x + r, y + r}}, Ink: s.Ink, Width: rim},
		{Points: []Point{{x - r, y + r}, {x + r, y - r}}, Ink: s.Ink, Width: rim},
	}
}
