package figure

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Style returns the style sheet of the inks. They are CSS variables (--ink-text …); [Light] and [Dark] return their
// values. The style sheet has everything about a mark except its geometry.
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

// Light returns declarations of CSS variables: the inks on white paper.
func Light() string { return variables(func(c colour) string { return c.light }) }

// Dark returns declarations of CSS variables: the inks on dark paper.
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

// palette returns the colours by M. Okabe and K. Ito (Color Universal Design, 2008). They are darkened on white and
// lightened on black, until marks have a contrast of at least 3:1 (WCAG 2.2, 1.4.11) and texts of 4.5:1. Their yellow
// is an olive here, because no yellow is readable on white.
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

// light returns the colour of an ink on white paper.
func light(ink Ink) string {
	for _, c := range palette() {
		if c.ink == ink {
			return c.light
		}
	}
	return "#000000" // as programs that draw SVG treat an unknown colour
}

// pen writes marks as SVG.
type pen struct {
	strings.Builder
	// literal gives each mark its colours as attributes. Many programs that draw SVG know neither CSS variables nor
	// currentColor, and would draw everything black.
	literal bool
}

// Classes of marks in the style sheet, without "k-".
const (
	lined    = "l"
	filled   = "a"
	rimmed   = "r"
	hollow   = "h"
	lettered = "x"
)

// look writes the attributes of a mark with an ink.
func (p *pen) look(class string, ink Ink) {
	if !p.literal {
		fmt.Fprintf(p, ` class="k-%s k-%s"`, class, ink)
		return
	}
	c := light(ink)
	switch class {
	case lined:
		fmt.Fprintf(p, ` fill="none" stroke="%s" stroke-linejoin="round"`, c)
	case rimmed:
		fmt.Fprintf(p, ` fill="%s" fill-opacity="%v" stroke="%s"`, c, faint, c)
	case hollow:
		fmt.Fprintf(p, ` fill="%s" stroke="%s" stroke-width="%v"`, light(InkPaper), c, rim)
	default:
		fmt.Fprintf(p, ` fill="%s"`, c)
	}
}

// SVG returns a figure as an element for a page that has [Style] and the variables it needs. id is the element's id in
// the page; the ids of title and description begin with it.
func (f Figure) SVG(id string) string {
	var p pen
	f.open(&p, id, "")
	f.body(&p)
	return p.String()
}

// WriteSVG writes a figure as a file of its own, enlarged by scale. Each mark has its light colour, so that programs
// with little CSS draw it, too.
func (f Figure) WriteSVG(w io.Writer, scale float64) error {
	p := pen{literal: true}
	p.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	f.open(&p, "figure", fmt.Sprintf(
		` xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" font-family="Helvetica, Arial, sans-serif"`,
		coordinate(f.Width*scale), coordinate(f.Height*scale)))
	rect(0, 0, f.Width, f.Height, InkPaper).svg(&p)
	f.body(&p)
	p.WriteByte('\n')
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write svg: %w", err)
	}
	return nil
}

func rect(x0, y0, x1, y1 float64, ink Ink) Mark { return Rect(x0, y0, x1, y1, ink) }

func (f Figure) open(p *pen, id, attributes string) {
	fmt.Fprintf(p, `<svg%s viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		attributes, coordinate(f.Width), coordinate(f.Height), id, id, id, escape(f.Title), id, escape(f.Description))
}

func (f Figure) body(p *pen) {
	for _, m := range f.Marks {
		m.svg(p)
	}
	p.WriteString("</svg>")
}

// clean replaces characters that XML does not allow (XML 1.0, section 2.2).
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// escape replaces the characters of a text that XML and HTML take for markup.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(clean(s))
}

// coordinate returns a length with one decimal, in CSS pixels.
func coordinate(x float64) string {
	s := strconv.FormatFloat(x, 'f', 1, 64)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

func (p *pen) path(points []Point, end string) {
	p.WriteString(` d="`)
	for i, at := range points {
		p.WriteString([]string{"M", "L"}[min(i, 1)])
		p.WriteString(coordinate(at.X))
		p.WriteByte(' ')
		p.WriteString(coordinate(at.Y))
	}
	p.WriteString(end + `"/>`)
}

func (l Line) svg(p *pen) {
	p.WriteString("<path")
	p.look(lined, l.Ink)
	fmt.Fprintf(p, ` stroke-width="%s"`, coordinate(l.Width))
	if l.Dashes != nil {
		var d []string
		for _, x := range l.Dashes {
			d = append(d, coordinate(x))
		}
		fmt.Fprintf(p, ` stroke-dasharray="%s"`, strings.Join(d, " "))
	}
	p.path(l.Points, "")
}

func (a Area) svg(p *pen) {
	p.WriteString("<path")
	if a.Rim > 0 {
		p.look(rimmed, a.Ink)
		fmt.Fprintf(p, ` stroke-width="%s"`, coordinate(a.Rim))
	} else {
		p.look(filled, a.Ink)
	}
	p.path(a.Points, "Z")
}

func (s Symbol) svg(p *pen) {
	class := filled
	if s.Hollow {
		class = hollow
	}
	switch s.Shape {
	case Circle:
		p.WriteString("<circle")
		p.look(class, s.Ink)
		fmt.Fprintf(p, ` cx="%s" cy="%s" r="%s"/>`, coordinate(s.At.X), coordinate(s.At.Y), coordinate(s.Radius))
	case Cross:
		for _, l := range s.strokes() {
			l.svg(p)
		}
	default:
		p.WriteString("<path")
		p.look(class, s.Ink)
		p.path(s.outline(), "Z")
	}
}

func (t Text) svg(p *pen) {
	p.WriteString("<text")
	p.look(lettered, t.Ink)
	fmt.Fprintf(p, ` x="%s" y="%s" font-size="%s"`, coordinate(t.At.X), coordinate(t.At.Y), coordinate(t.Size))
	if t.Bold {
		p.WriteString(` font-weight="600"`)
	}
	if t.Anchor != "" && t.Anchor != Start {
		fmt.Fprintf(p, ` text-anchor="%s"`, t.Anchor)
	}
	if t.Up {
		fmt.Fprintf(p, ` transform="rotate(-90 %s %s)"`, coordinate(t.At.X), coordinate(t.At.Y))
	}
	p.WriteByte('>')
	if t.Whole != "" {
		p.WriteString("<title>" + escape(t.Whole) + "</title>")
	}
	p.WriteString(escape(t.Text) + "</text>")
}

// outline returns the polygon of a symbol. All shapes have about the same area.
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
