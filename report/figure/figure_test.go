package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/internal/testnet"
)

var update = flag.Bool("update", false, "write the golden files")

// sample has one mark of each kind.
func sample() Figure {
	return Figure{
		Name: "sample", Title: `Title with <b> & "quotes"`, Description: "What can be seen.\x00", Width: 200, Height: 120,
		Marks: []Mark{
			Rect(10, 10, 60, 40, InkBand),
			Area{Points: []Point{{70, 10}, {120, 10}, {120, 40}, {70, 40}}, Ink: Series(1), Rim: 1.2},
			Line{Points: []Point{{10, 60}, {100, 60}, {190, 70}}, Ink: Series(2), Width: 2, Dashes: Dashes(1)},
			Symbol{At: Point{20, 90}, Shape: Circle, Radius: 4, Ink: InkGood},
			Symbol{At: Point{40, 90}, Shape: Square, Radius: 4, Ink: InkBad},
			Symbol{At: Point{60, 90}, Shape: Diamond, Radius: 4, Ink: InkDoubt, Hollow: true},
			Symbol{At: Point{80, 90}, Shape: Triangle, Radius: 4, Ink: InkText},
			Symbol{At: Point{100, 90}, Shape: Cross, Radius: 4, Ink: InkText},
			Text{
				At: Point{190, 20}, Text: "<5 µs & more>", Ink: InkText, Size: 12, Bold: true, Anchor: End,
				Whole: "the whole of it",
			},
			Text{At: Point{195, 110}, Text: "upward", Ink: InkMuted, Size: 10.5, Up: true},
			Text{At: Point{100, 115}, Text: "middle", Ink: InkMuted, Size: 10.5, Anchor: Middle},
		},
	}
}

func TestWriteSVG(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteSVG(&b, 1); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "sample.svg")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("%s (rewrite it with -update):\n%s", file, d)
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Many programs that draw SVG know no CSS: without a colour of its own, a mark would be black there, or invisible.
func TestSVGNeedsNoStyle(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteSVG(&b, 1); err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile(`^(#[0-9a-f]{6}|none)$`)
	marks := 0
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		has := map[string]string{}
		for _, a := range e.Attr {
			has[a.Name.Local] = a.Value
		}
		switch name := e.Name.Local; {
		case name == "style" || has["class"] != "" || has["style"] != "":
			t.Errorf("%s has a style: %v", name, has)
		case name == "path" || name == "circle" || name == "text":
			marks++
			if !literal.MatchString(has["fill"]) || has["fill"] == "none" && !literal.MatchString(has["stroke"]) {
				t.Errorf("%s without a colour: %v", name, has)
			}
		}
	}
	if marks < len(sample().Marks) {
		t.Errorf("%d marks, want at least %d", marks, len(sample().Marks))
	}
	if page := sample().SVG("f"); !strings.Contains(page, `class="k-`) || strings.Contains(page, "#0072b2") {
		t.Error("in a page the style sheet does not decide the colours")
	}
}

// Another program can draw the SVG.
func TestSVGElsewhere(t *testing.T) {
	rsvg := testnet.Program(t, "rsvg-convert", "librsvg2-bin")
	file := filepath.Join(t.TempDir(), "sample.svg")
	write(t, file, func(w io.Writer) error { return sample().WriteSVG(w, 2) })
	out, err := exec.Command(rsvg, file).Output()
	if err != nil {
		t.Fatal(err)
	}
	look(t, out)
}

// Another program can read the PDF, and finds its texts.
func TestPDFElsewhere(t *testing.T) {
	reader, drawer := testnet.Program(t, "pdftotext", "poppler-utils"), testnet.Program(t, "pdftoppm", "poppler-utils")
	file := filepath.Join(t.TempDir(), "sample.pdf")
	write(t, file, func(w io.Writer) error { return sample().WritePDF(w, 1, time.Unix(1e9, 0)) })
	text, err := exec.Command(reader, file, "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<5 µs & more>", "middle"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the texts %q", want, text)
		}
	}
	const dots = "192" // per inch: two for each CSS pixel
	out, err := exec.Command(drawer, "-r", dots, "-png", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	look(t, out)
}

func write(t *testing.T, file string, to func(io.Writer) error) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(to(f), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A figure has the size that was asked for and the same bytes each time; impossible sizes are refused.
func TestWritePDF(t *testing.T) {
	var b, again bytes.Buffer
	for _, w := range []io.Writer{&b, &again} {
		if err := sample().WritePDF(w, 2, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.HasPrefix(b.Bytes(), []byte("%PDF-1.")) || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("no PDF, or not the same twice: %.20q", b.String())
	}
	if want := "/MediaBox [0 0 300.00 180.00]"; !strings.Contains(b.String(), want) {
		t.Errorf("no %s", want)
	}
	odd := sample()
	odd.Title = "\U0001F600\xff\n"
	odd.Marks = append(odd.Marks, Text{Text: "\U0001F600\xffabc\xe2\x82", Size: 10, Ink: "no such"}, Text{Text: "x", Size: -1},
		Line{Ink: InkText}, Area{Ink: InkText})
	if err := odd.WritePDF(io.Discard, 1, time.Time{}); err != nil {
		t.Error(err)
	}
	for _, f := range []Figure{{}, {Width: 10}, {Width: 1e6, Height: 10}, {Width: math.NaN(), Height: 10}} {
		if err := f.WritePDF(io.Discard, 2, time.Time{}); err == nil {
			t.Errorf("%v × %v: no error", f.Width, f.Height)
		}
	}
}

func TestWritePNG(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WritePNG(&b, 2); err != nil {
		t.Fatal(err)
	}
	look(t, b.Bytes())
}

// look checks the picture of the sample, at two pixels for each CSS pixel.
func look(t *testing.T, picture []byte) {
	t.Helper()
	im, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	if im.Bounds() != image.Rect(0, 0, 400, 240) {
		t.Errorf("bounds %v", im.Bounds())
	}
	at := func(x, y float64) color.NRGBA {
		return color.NRGBAModel.Convert(im.At(int(2*x), int(2*y))).(color.NRGBA)
	}
	for _, tt := range []struct {
		what string
		x, y float64
		want Ink
	}{
		{"paper", 5, 5, InkPaper},
		{"the inside of a rectangle", 30, 25, InkBand},
		{"a line", 12, 60, Series(2)},
		{"a gap of a dashed line", 18.5, 60, InkPaper},
		{"a symbol", 20, 90, InkGood},
		{"the inside of a hollow symbol", 60, 90, InkPaper},
		{"where the strokes of a cross overlap", 100, 90, InkText},
	} {
		if got := at(tt.x, tt.y); hex(got) != light(tt.want) {
			t.Errorf("%s is %s, want %s", tt.what, hex(got), light(tt.want))
		}
	}
	if got := hex(at(95, 25)); got == light(InkPaper) || got == light(Series(1)) {
		t.Errorf("the inside of a rimmed area is %s, want a faint %s", got, light(Series(1)))
	}
	for _, box := range []image.Rectangle{
		image.Rect(220, 20, 380, 42), image.Rect(370, 140, 392, 222), image.Rect(160, 216, 240, 232),
	} {
		if n := dark(im, box); n < 40 {
			t.Errorf("no text in %v: %d dark pixels", box, n)
		}
	}
	if n := dark(im, image.Rect(300, 160, 360, 240)); n != 0 {
		t.Errorf("%d dark pixels where nothing is", n)
	}
}

func hex(c color.NRGBA) string {
	return "#" + strconv.FormatUint(uint64(c.R)<<16|uint64(c.G)<<8|uint64(c.B)|1<<24, 16)[1:]
}

func dark(im image.Image, box image.Rectangle) int {
	n := 0
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if g := color.GrayModel.Convert(im.At(x, y)).(color.Gray); g.Y < 160 {
				n++
			}
		}
	}
	return n
}

func TestWritePNGRefuses(t *testing.T) {
	for _, f := range []Figure{{}, {Width: 10}, {Width: 1e6, Height: 10}, {Width: math.NaN(), Height: 10}} {
		if err := f.WritePNG(io.Discard, 2); err == nil {
			t.Errorf("%v × %v: no error", f.Width, f.Height)
		}
	}
}

// Every ink has enough contrast with its paper, light and dark: texts 4.5:1, marks 3:1 (WCAG 2.2, 1.4.3 and 1.4.11).
func TestContrast(t *testing.T) {
	paper := palette()[4]
	if paper.ink != InkPaper {
		t.Fatalf("ink %q", paper.ink)
	}
	for _, c := range palette() {
		want := 3.0
		switch c.ink {
		case InkGrid, InkBand, InkPaper:
			continue
		case InkText, InkMuted, InkGood, InkBad, InkDoubt:
			want = 4.5
		}
		for _, on := range [][2]string{{c.light, paper.light}, {c.dark, paper.dark}} {
			if got := contrast(t, on[0], on[1]); got < want {
				t.Errorf("ink %s: %s on %s has %.2f:1, want %v:1", c.ink, on[0], on[1], got, want)
			}
		}
	}
}

// contrast returns the contrast of two colours by WCAG 2.2 (relative luminance).
func contrast(t *testing.T, a, b string) float64 {
	luminance := func(s string) float64 {
		x, err := strconv.ParseUint(s[1:], 16, 24)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(x>>(16-8*i)&0xff) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// All of 32 series look different.
func TestSeriesDiffer(t *testing.T) {
	seen := map[string]int{}
	for i := range 32 {
		var d []string
		for _, x := range Dashes(i) {
			d = append(d, coordinate(x))
		}
		look := string(Series(i)) + " " + strings.Join(d, ",")
		if j, ok := seen[look]; ok {
			t.Errorf("series %d and %d are drawn alike: %s", j, i, look)
		}
		seen[look] = i
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scale Scale
		n     int
		want  []float64
	}{
		{"linear", Scale{Lo: 3.2, Hi: 4.9}, 5, []float64{3.5, 4, 4.5}},
		{"with zero", Scale{Lo: -12, Hi: 21}, 5, []float64{-10, 0, 10, 20}},
		{"decades", Scale{Lo: 3e-6, Hi: 2e-2, Log: true}, 6, []float64{1e-5, 1e-4, 1e-3, 1e-2}},
		{"one decade", Scale{Lo: 3, Hi: 60, Log: true}, 6, []float64{5, 10, 20, 50}},
		{"less than one", Scale{Lo: 10, Hi: 20, Log: true}, 5, []float64{10, 12, 14, 16, 18, 20}},
		{"many decades", Scale{Lo: 1e-9, Hi: 1e9, Log: true}, 6, []float64{1e-9, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9}},
		{"nothing", Scale{Lo: 1, Hi: 1}, 5, []float64{1}},
	} {
		if d := cmp.Diff(tt.want, tt.scale.Ticks(tt.n), cmpopts.EquateApprox(1e-9, 0)); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

func TestScale(t *testing.T) {
	s := Scale{Lo: 1, Hi: 100, From: 10, To: 210, Log: true}
	for x, want := range map[float64]float64{1: 10, 10: 110, 100: 210, 1000: 310} {
		if got := s.At(x); math.Abs(got-want) > 1e-9 {
			t.Errorf("At(%v) = %v, want %v", x, got, want)
		}
	}
	if got := s.Clip(1e6); got != 210 {
		t.Errorf("Clip = %v, want 210", got)
	}
	if _, broken := s.Break(); broken {
		t.Error("an axis without 0 is broken")
	}
	s.From, s.Zero = -10, 20 // 0 stands there
	for x, want := range map[float64]float64{0: -10, 1: 10, 10: 110, 100: 210} {
		if got := s.At(x); math.Abs(got-want) > 1e-9 || s.Clip(x) != got {
			t.Errorf("At(%v) = %v beside 0, Clip %v, want %v", x, got, s.Clip(x), want)
		}
	}
	if at, broken := s.Break(); at != 0 || !broken {
		t.Errorf("it is broken (%v) at %v, want 0", broken, at)
	}
}

func TestShorten(t *testing.T) {
	long := "bridge+nftables(rules=1000)+vxlan+wireguard(mtu=1420)"
	for _, tt := range []struct {
		breadth float64
		check   func(string) bool
	}{
		{1000, func(s string) bool { return s == long }},
		{150, func(s string) bool {
			return strings.HasPrefix(s, "bridge+") && strings.HasSuffix(s, "=1420)") && strings.Contains(s, "…")
		}},
		{0, func(s string) bool { return s == "…" }},
	} {
		got := Shorten(long, 12, false, tt.breadth)
		if !tt.check(got) || got != "…" && Breadth(got, 12, false) > tt.breadth {
			t.Errorf("to %v: %q, %v broad", tt.breadth, got, Breadth(got, 12, false))
		}
	}
}
