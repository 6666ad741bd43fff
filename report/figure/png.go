package figure

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// WritePNG writes a figure as an image with the light colours, with scale pixels for each CSS pixel: 2 for most
// screens. The error names the valid sizes: 1 to 16,384 pixels.
func (f Figure) WritePNG(w io.Writer, scale float64) error {
	p, err := newPainter(f, scale)
	if err != nil {
		return fmt.Errorf("draw png: %w", err)
	}
	for _, m := range f.Marks {
		m.png(p)
	}
	if err := png.Encode(w, p.image); err != nil {
		return fmt.Errorf("write png: %w", err)
	}
	return nil
}

// painter draws marks into an image.
type painter struct {
	image   *image.RGBA
	scale   float64
	colours map[Ink]color.NRGBA
	fonts   map[bool]*opentype.Font // by bold
	faces   map[face]font.Face
	fill    vector.Rasterizer

	polygons [][]Point // filled by the next paint
}

type face struct {
	size float64
	bold bool
}

// largest is the largest width and height of an image, in pixels.
const largest = 1 << 14

func newPainter(f Figure, scale float64) (*painter, error) {
	width, height := int(math.Ceil(f.Width*scale)), int(math.Ceil(f.Height*scale))
	if width < 1 || height < 1 || width > largest || height > largest {
		return nil, fmt.Errorf("%d × %d pixels (valid: 1 to %d each)", width, height, largest)
	}
	p := &painter{
		image: image.NewRGBA(image.Rect(0, 0, width, height)), scale: scale, colours: map[Ink]color.NRGBA{},
		fonts: map[bool]*opentype.Font{}, faces: map[face]font.Face{},
	}
	for _, c := range palette() {
		rgb, err := strconv.ParseUint(c.light[1:], 16, 24)
		if err != nil {
			return nil, fmt.Errorf("colour %q: %w", c.light, err)
		}
		p.colours[c.ink] = color.NRGBA{uint8(rgb >> 16), uint8(rgb >> 8 & 0xff), uint8(rgb & 0xff), 0xff}
	}
	draw.Draw(p.image, p.image.Bounds(), image.NewUniform(p.colours[InkPaper]), image.Point{}, draw.Src)
	for bold, ttf := range map[bool][]byte{false: goregular.TTF, true: gobold.TTF} {
		parsed, err := opentype.Parse(ttf)
		if err != nil {
			return nil, fmt.Errorf("parse font: %w", err)
		}
		p.fonts[bold] = parsed
	}
	return p, nil
}

// polygon adds a polygon for the next paint.
func (p *painter) polygon(points []Point) { p.polygons = append(p.polygons, points) }

// paint fills the polygons added since the last call, in a raster no larger than they are. All of them must turn the
// same way round, so that overlaps are filled once.
func (p *painter) paint(ink Ink, opacity float64) {
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, points := range p.polygons {
		for _, at := range points {
			x0, x1 = min(x0, at.X*p.scale), max(x1, at.X*p.scale)
			y0, y1 = min(y0, at.Y*p.scale), max(y1, at.Y*p.scale)
		}
	}
	bounds := p.image.Bounds()
	in := func(x float64, most int) int { return int(min(max(x, 0), float64(most))) }
	box := image.Rect(in(math.Floor(x0), bounds.Dx()), in(math.Floor(y0), bounds.Dy()), in(math.Ceil(x1)+1, bounds.Dx()),
		in(math.Ceil(y1)+1, bounds.Dy()))
	p.fill.Reset(box.Dx(), box.Dy())
	for _, points := range p.polygons {
		area := 0.0
		for i, a := range points {
			b := points[(i+1)%len(points)]
			area += a.X*b.Y - b.X*a.Y
		}
		for i := range points {
			at := points[i]
			if area < 0 {
				at = points[len(points)-1-i]
			}
			x, y := float32(at.X*p.scale)-float32(box.Min.X), float32(at.Y*p.scale)-float32(box.Min.Y)
			if i == 0 {
				p.fill.MoveTo(x, y)
			} else {
				p.fill.LineTo(x, y)
			}
		}
		p.fill.ClosePath()
	}
	p.polygons = p.polygons[:0]
	if box.Empty() {
		return
	}
	c := p.colours[ink]
	c.A = uint8(math.Round(255 * opacity))
	p.fill.Draw(p.image, box, image.NewUniform(c), image.Point{})
}

// disc returns a circle as a polygon.
func disc(at Point, radius float64) []Point {
	const corners = 24
	list := make([]Point, corners)
	for i := range list {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		list[i] = Point{at.X + radius*cos, at.Y + radius*sin}
	}
	return list
}

// stroke adds a line with round corners and straight ends: the ends of intervals have a meaning.
func (p *painter) stroke(points []Point, width float64) {
	r := width / 2
	for i, b := range points {
		if i == 0 {
			continue
		}
		if i < len(points)-1 || b == points[0] {
			p.polygon(disc(b, r))
		}
		a := points[i-1]
		length := math.Hypot(b.X-a.X, b.Y-a.Y)
		if length == 0 {
			continue
		}
		x, y := (b.Y-a.Y)/length*r, (a.X-b.X)/length*r
		p.polygon([]Point{{a.X + x, a.Y + y}, {b.X + x, b.Y + y}, {b.X - x, b.Y - y}, {a.X - x, a.Y - y}})
	}
}

func (l Line) png(p *painter) {
	for _, piece := range dashed(l.Points, l.Dashes) {
		p.stroke(piece, l.Width)
	}
	p.paint(l.Ink, 1)
}

// dashed splits a line into its dashes.
func dashed(points []Point, dashes []float64) [][]Point {
	if len(dashes) == 0 || len(points) < 2 {
		return [][]Point{points}
	}
	var list [][]Point
	piece := []Point{points[0]}
	which, rest := 0, dashes[0]
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		length := math.Hypot(b.X-a.X, b.Y-a.Y)
		for done := 0.0; done < length; {
			step := min(rest, length-done)
			done += step
			rest -= step
			at := Point{a.X + (b.X-a.X)*done/length, a.Y + (b.Y-a.Y)*done/length}
			if which%2 == 0 {
				piece = append(piece, at)
			}
			if rest > 0 {
				continue
			}
			if which%2 == 0 {
				list = append(list, piece)
			}
			which = (which + 1) % len(dashes)
			rest = max(dashes[which], 0.1) // dashes of length 0 would never end
			piece = []Point{at}
		}
	}
	if which%2 == 0 && len(piece) > 1 {
		list = append(list, piece)
	}
	return list
}

func (a Area) png(p *painter) {
	p.polygon(a.Points)
	if a.Rim == 0 {
		p.paint(a.Ink, 1)
		return
	}
	p.paint(a.Ink, faint)
	p.stroke(append(append([]Point{}, a.Points...), a.Points[0]), a.Rim)
	p.paint(a.Ink, 1)
}

func (s Symbol) png(p *painter) {
	if s.Shape == Cross {
		for _, l := range s.strokes() {
			l.png(p)
		}
		return
	}
	points := s.outline()
	if s.Shape == Circle {
		points = disc(s.At, s.Radius)
	}
	p.polygon(points)
	if !s.Hollow {
		p.paint(s.Ink, 1)
		return
	}
	p.paint(InkPaper, 1)
	p.stroke(append(append([]Point{}, points...), points[0]), rim)
	p.paint(s.Ink, 1)
}

func (t Text) png(p *painter) {
	f, err := p.face(t.Size, t.Bold)
	if err != nil { // invalid size: nothing is visible
		return
	}
	width := font.MeasureString(f, t.Text)
	offset := fixed.Int26_6(0)
	switch t.Anchor {
	case Middle:
		offset = width / 2
	case End:
		offset = width
	case Start:
	}
	ink := image.NewUniform(p.colours[t.Ink])
	if !t.Up {
		at := fixed.Point26_6{X: p.fixed(t.At.X) - offset, Y: p.fixed(t.At.Y)}
		(&font.Drawer{Dst: p.image, Src: ink, Face: f, Dot: at}).DrawString(t.Text)
		return
	}
	// The text is drawn horizontally outside of the image, then turned.
	height := f.Metrics().Height.Ceil()
	level := image.NewAlpha(image.Rect(0, 0, width.Ceil()+1, 2*height))
	(&font.Drawer{Dst: level, Src: image.Opaque, Face: f, Dot: fixed.P(0, height)}).DrawString(t.Text)
	x0, y0 := p.fixed(t.At.X).Round()-height, (p.fixed(t.At.Y) + offset).Round()
	for y := range level.Bounds().Dy() {
		for x := range level.Bounds().Dx() {
			at := image.Rect(x0+y, y0-x, x0+y+1, y0-x+1)
			draw.DrawMask(p.image, at, ink, image.Point{}, level, image.Pt(x, y), draw.Over)
		}
	}
}

func (p *painter) fixed(x float64) fixed.Int26_6 { return fixed.Int26_6(math.Round(x * p.scale * 64)) }

func (p *painter) face(size float64, bold bool) (font.Face, error) {
	key := face{size, bold}
	if f, ok := p.faces[key]; ok {
		return f, nil
	}
	const dpi = 72 // one point is one pixel
	f, err := opentype.NewFace(p.fonts[bold], &opentype.FaceOptions{
		Size: size * p.scale, DPI: dpi, Hinting: font.HintingNone,
	})
	if err != nil {
		return nil, fmt.Errorf("make face: %w", err)
	}
	p.faces[key] = f
	return f, nil
}
