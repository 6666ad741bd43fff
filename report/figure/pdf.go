package figure

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
)

// points is the number of points of print in a CSS pixel.
const points = 0.75

// WritePDF writes a figure as a page of its own with the light colours, enlarged by scale; when is its time of
// creation. Lines stay lines, texts stay texts, and the fonts are in the file, as journals require. The error
// names the valid sizes: 1 to 14,400 points.
func (f Figure) WritePDF(w io.Writer, scale float64, when time.Time) error {
	unit := points * scale
	width, height := f.Width*unit, f.Height*unit
	const most = 14400 // PDF 1.7, annex C.2
	if !(width >= 1 && height >= 1 && width <= most && height <= most) {
		return fmt.Errorf("draw pdf: %.0f × %.0f points (valid: 1 to %d each)", width, height, most)
	}
	doc := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: width, Ht: height}})
	doc.SetCatalogSort(true) // the same figure gives the same file
	doc.SetCreationDate(when.UTC())
	doc.SetModificationDate(when.UTC())
	doc.SetTitle(printed(f.Title), true)
	doc.SetSubject(printed(f.Description), true)
	doc.SetCreator("nettoll", false)
	doc.SetLang("en")
	doc.SetMargins(0, 0, 0)
	doc.SetAutoPageBreak(false, 0)
	doc.AddUTF8FontFromBytes(family, "", goregular.TTF)
	doc.AddUTF8FontFromBytes(family, "B", gobold.TTF)
	doc.AddPage()
	doc.SetLineJoinStyle("round")
	s := &sheet{doc, unit}
	for _, m := range f.Marks {
		m.pdf(s)
	}
	if err := doc.Output(w); err != nil {
		return fmt.Errorf("write pdf: %w", err)
	}
	return nil
}

const family = "go"

// printed returns a text without the characters that the numbering of the fonts cannot express.
func printed(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r > 0xFFFF:
			return '\uFFFD'
		}
		return r
	}, clean(text))
}

// sheet is the page on which marks are drawn.
type sheet struct {
	*fpdf.Fpdf
	unit float64 // points of a CSS pixel, enlarged by scale
}

// rgb returns the light colour of an ink.
func rgb(ink Ink) (r, g, b int) {
	x, _ := strconv.ParseUint(light(ink)[1:], 16, 24)
	return int(x >> 16), int(x >> 8 & 0xff), int(x & 0xff)
}

// path adds a line, or the outline of an area, to the page.
func (s *sheet) path(points []Point, closed bool) {
	for i, p := range points {
		if x, y := p.X*s.unit, p.Y*s.unit; i == 0 {
			s.MoveTo(x, y)
		} else {
			s.LineTo(x, y)
		}
	}
	if closed {
		s.ClosePath()
	}
}

func (s *sheet) fill(ink Ink, opacity float64) {
	s.SetFillColor(rgb(ink))
	if opacity == 1 {
		s.DrawPath("F")
		return
	}
	s.SetAlpha(opacity, "Normal")
	s.DrawPath("F")
	s.SetAlpha(1, "Normal")
}

func (s *sheet) pen(ink Ink, width float64, dashes []float64) {
	list := make([]float64, len(dashes))
	for i, d := range dashes {
		list[i] = d * s.unit
	}
	s.SetDrawColor(rgb(ink))
	s.SetLineWidth(width * s.unit)
	s.SetDashPattern(list, 0)
}

func (l Line) pdf(s *sheet) {
	if len(l.Points) < 2 {
		return
	}
	s.pen(l.Ink, l.Width, l.Dashes)
	s.path(l.Points, false)
	s.DrawPath("D")
}

func (a Area) pdf(s *sheet) {
	s.path(a.Points, true)
	if a.Rim == 0 {
		s.fill(a.Ink, 1)
		return
	}
	s.fill(a.Ink, faint)
	s.pen(a.Ink, a.Rim, nil)
	s.path(a.Points, true)
	s.DrawPath("D")
}

func (s Symbol) pdf(on *sheet) {
	if s.Shape == Cross {
		for _, l := range s.strokes() {
			l.pdf(on)
		}
		return
	}
	style := "F"
	on.SetFillColor(rgb(s.Ink))
	if s.Hollow {
		style = "FD"
		on.SetFillColor(rgb(InkPaper))
		on.pen(s.Ink, rim, nil)
	}
	if s.Shape == Circle {
		on.Circle(s.At.X*on.unit, s.At.Y*on.unit, s.Radius*on.unit, style)
		return
	}
	on.path(s.outline(), true)
	on.DrawPath(style)
}

func (t Text) pdf(s *sheet) {
	style := ""
	if t.Bold {
		style = "B"
	}
	if !(t.Size > 0) || math.IsInf(t.Size, 0) {
		return // invalid size: nothing is visible
	}
	s.SetFont(family, style, t.Size*s.unit)
	s.SetTextColor(rgb(t.Ink))
	text := printed(t.Text)
	before := 0.0
	switch t.Anchor {
	case Middle:
		before = s.GetStringWidth(text) / 2
	case End:
		before = s.GetStringWidth(text)
	case Start:
	}
	x, y := t.At.X*s.unit, t.At.Y*s.unit
	if t.Up {
		const upward = 90
		s.TransformBegin()
		defer s.TransformEnd()
		s.TransformRotate(upward, x, y)
	}
	s.Text(x-before, y, text)
}
