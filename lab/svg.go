package lab

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/control"
)

// Sizes of the picture, in pixels.
const (
	svgMargin = 24 // around everything, and between hosts
	svgPad    = 18 // inside a frame
	svgGap    = 14 // between boxes

	svgBox   = 206 // width of a container
	svgMore  = 96  // width of the box with the number of further containers
	svgAside = 264 // width of the network stack if it is beside the path of the packets
	svgInner = 440 // least width inside a frame
	svgChips = 320 // least width of the links to the underlay
	svgWidth = 760 // least width of the picture, for its title

	svgHead  = 40 // of a frame, and of the picture
	svgLine  = 15 // height of a line of small text
	svgReach = 66 // between containers and the boxes that they are joined to
	svgBar   = 46 // height of a bridge and of the underlay
	svgChip  = 46 // height of a link to the underlay
	svgPath  = 26 // height of a path between routers
	svgLayer = 44 // height of a layer between hosts
	svgAdded = 64 // width of a header that a layer adds

	svgGlyph = 6.7 // width of a letter of small text
	svgTitle = 10  // width of a letter of the title
)

// rect is the place of something in the picture.
type rect struct{ x, y, w, h float64 }

func (r rect) middle() float64 { return r.x + r.w/2 }
func (r rect) bottom() float64 { return r.y + r.h }

// drawing is a picture in two layers: lines are below boxes.
type drawing struct {
	lines, boxes bytes.Buffer
}

func (d *drawing) box(r rect, class string) {
	fmt.Fprintf(&d.boxes, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6" class="%s"/>`+"\n", r.x, r.y, r.w,
		r.h, class)
}

func (d *drawing) text(x, y float64, class, format string, args ...any) {
	fmt.Fprintf(&d.boxes, `<text x="%.1f" y="%.1f" class="%s">%s</text>`+"\n", x, y, class,
		html.EscapeString(fmt.Sprintf(format, args...)))
}

// line draws a path of packets.
func (d *drawing) line(x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.lines, `<path d="M%.1f %.1fV%.1fH%.1fV%.1f" class="way"/>`+"\n", x1, y1, (y1+y2)/2, x2, y2)
}

// fit cuts a text to a width.
func fit(text string, width float64) string {
	most := max(4, int(width/svgGlyph))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// svgHost is a host while the picture is drawn.
type svgHost struct {
	*GraphHost
	shown   []GraphContainer
	more    int
	bridges []GraphLink
	uplinks []GraphLink
	others  []GraphLink // neither these nor the other end of a container's link
	aside   bool        // no container is joined to the network stack of the host, which is drawn beside
	stack   []string    // text of the network stack
	inner   float64     // width inside of the frame
	row     float64     // width of the containers
}

// arrange sorts the links of a host.
func arrange(h *GraphHost) *svgHost {
	s := &svgHost{GraphHost: h, aside: true}
	s.shown, s.more = shown(h.Containers)
	for _, l := range h.Own.Links {
		theirs := l.Peer != nil && strings.HasPrefix(l.Peer.At, h.Name+"/")
		switch {
		case l.Name == "lo":
		case l.Type == "bridge" || slices.ContainsFunc(h.Own.Links, func(o GraphLink) bool { return o.Master == l.Name }):
			s.bridges = append(s.bridges, l)
			s.aside = s.aside && len(l.Addresses) == 0
		case l.Peer != nil && l.Peer.At == underlay:
			s.uplinks = append(s.uplinks, l)
		case theirs:
			s.aside = s.aside && l.Master != ""
		default:
			s.others = append(s.others, l)
		}
	}
	s.aside = s.aside && !slices.ContainsFunc(h.Containers, func(c GraphContainer) bool { return c.Shared })
	s.stack = []string{fmt.Sprintf("network stack of %s: %s", h.Name, several(len(h.Own.Routes), "route"))}
	for _, l := range s.others {
		s.stack = append(s.stack, l.text(true))
	}
	s.row = float64(len(s.shown))*(svgBox+svgGap) - svgGap
	if s.more > 0 {
		s.row += svgGap + svgMore
	}
	s.inner = max(s.row, svgInner)
	wide := s.inner
	if s.aside {
		s.inner = max(s.row, svgChips) + svgAside + svgGap
		wide = svgAside
	}
	const most = 4
	for i, r := range h.Rules {
		if i == most {
			s.stack = append(s.stack, fmt.Sprintf("and %d rules more", len(h.Rules)-i))
			break
		}
		s.stack = append(s.stack, wrap(r, wide-20)...)
	}
	return s
}

// wrap breaks a text into a few lines of limited width.
func wrap(text string, width float64) (lines []string) {
	const most = 3
	for {
		line := fit(text, width)
		if line == text || len(lines) == most-1 {
			return append(lines, line)
		}
		line = strings.TrimSuffix(line, "…")
		if at := strings.LastIndexByte(line, ' '); at > len("  ") {
			line = line[:at]
		}
		lines = append(lines, line)
		text = "  " + strings.TrimSpace(text[len(line):])
	}
}

// lines returns the text in the box of a container.
func (c *GraphContainer) lines() []string {
	if c.Shared {
		return append([]string{"in its host's network"}, c.Addresses...)
	}
	var lines []string
	for _, l := range c.Space.Links {
		if l.Name == "lo" {
			continue
		}
		kind := l.Name + "  " + l.Type
		if l.Mode != "" {
			kind += " " + l.Mode
		}
		lines = append(lines, kind)
		lines = append(lines, l.Addresses...)
	}
	for _, f := range c.Space.Filters {
		lines = append(lines, "rules: "+f.Program)
	}
	return lines
}

// SVG draws the lab: a frame for each host, with its containers above the boxes that they are joined to, and the
// underlay below all hosts.
func (g *Graph) SVG(w io.Writer) error {
	var hosts []*svgHost
	var below *GraphHost
	boxLines, stackLines, bridges, width := 1, 1, false, float64(svgMargin)
	for i := range g.Hosts {
		if g.Hosts[i].Name == underlay {
			below = &g.Hosts[i]
			continue
		}
		h := arrange(&g.Hosts[i])
		hosts = append(hosts, h)
		for _, c := range h.shown {
			boxLines = max(boxLines, len(c.lines()))
		}
		stackLines = max(stackLines, len(h.stack))
		bridges = bridges || len(h.bridges) > 0
		width += h.inner + 2*svgPad + svgMargin
	}
	for _, h := range hosts { // widen a narrow picture
		h.inner += max(0, svgWidth-width) / float64(len(hosts))
	}
	width = max(width, svgWidth)
	// From top to bottom: containers, bridges, network stacks, links to the underlay.
	boxH, stackH := float64(svgHead-8+boxLines*svgLine), float64(16+stackLines*svgLine)
	text := fmt.Sprintf("%s; mtu %d; proved: %s", g.what(), g.MTU, g.Proof)
	if g.Enforced != "" {
		text += "; filter: enforced " + g.Enforced
	}
	proof := wrap(text, width-2*svgMargin)
	top := float64(svgMargin + svgHead + len(proof)*svgLine)
	boxY := top + svgHead
	bridgeY := boxY + boxH + svgReach
	stackY := bridgeY
	if bridges {
		stackY += svgBar + svgReach/2
	}
	chipY := stackY + stackH + svgReach/2
	frameH := stackY + stackH + svgPad - top
	if below != nil {
		frameH = chipY + svgChip - top // the links are on its edge
	}
	underY := top + frameH + svgReach
	height := top + frameH + svgMargin
	if below != nil {
		height = underY + below.underHeight() + svgMargin + g.layersHeight()
	}

	var d drawing
	d.text(svgMargin, svgMargin+16, "title", "%s", fit("lab "+g.Name+": "+g.Stack, (width-2*svgMargin)*svgGlyph/svgTitle))
	for i, line := range proof {
		d.text(svgMargin, svgMargin+36+float64(i*svgLine), "small", "%s", line)
	}
	under := rect{svgMargin, underY, width - 2*svgMargin, svgBar}
	if below != nil {
		under.h = below.underHeight()
	}
	var middles []float64 // of the hosts' links to the underlay
	x := float64(svgMargin)
	for _, h := range hosts {
		frame := rect{x, top, h.inner + 2*svgPad, frameH}
		middles = append(middles, h.draw(&d, frame, rows{boxY, boxH, bridgeY, stackY, stackH, chipY}, under))
		x += frame.w + svgMargin
	}
	if below != nil {
		below.drawUnder(&d, under, g.Between, middles)
		g.layers(&d, rect{under.x, under.bottom(), under.w, 0})
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">
<title>%s</title>
<style>
text { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 12px; fill: #0f172a }
.title { font-size: 17px; font-weight: 600 }
.name { font-size: 14px; font-weight: 600 }
.small, .link { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 11px; fill: #334155 }
.link { fill: #475569; paint-order: stroke; stroke: #f8fafc; stroke-width: 4px }
.good { fill: #15803d } .bad { fill: #b91c1c; font-weight: 600 }
.back { fill: #ffffff } .frame { fill: #f8fafc; stroke: #94a3b8 }
.container { fill: #ffffff; stroke: #2563eb } .shared, .more { fill: #ffffff; stroke: #94a3b8; stroke-dasharray: 4 3 }
.bridge { fill: #dbeafe; stroke: #60a5fa } .stack { fill: #ede9fe; stroke: #a78bfa }
.chip { fill: #fef9c3; stroke: #ca8a04 }
.added { fill: #cbd5e1; stroke: #64748b } .layer { fill: #f8fafc; stroke: #64748b }
.keyed { fill: #86efac; stroke: #15803d } .sealed { fill: #f0fdf4; stroke: #15803d }
.payload { fill: #eff6ff; stroke: #2563eb } .end { text-anchor: end } .mid { text-anchor: middle; font-weight: 600 }
.underlay { fill: #e2e8f0; stroke: #64748b } .way { fill: none; stroke: #64748b; stroke-width: 1.6 }
</style>
<rect width="100%%" height="100%%" class="back"/>
`, width, height, width, height, html.EscapeString("lab "+g.Name))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s</svg>\n", slices.Concat(d.lines.Bytes(), d.boxes.Bytes()))
	return err
}

// routerDown is the name of a router's link to its host, in the plan of the underlay.
const routerDown = "down0"

// paths returns the bridges that join the routers of hosts; none if there are no routers.
func (h *GraphHost) paths() []GraphLink {
	return slices.DeleteFunc(slices.Clone(h.Own.Links), func(l GraphLink) bool {
		return l.Type != "bridge" || !slices.ContainsFunc(h.Containers, func(c GraphContainer) bool {
			return slices.ContainsFunc(c.Space.Links, func(up GraphLink) bool {
				return up.Name != routerDown && up.Peer != nil && h.port(up.Peer.Name).Master == l.Name
			})
		})
	})
}

// port returns a link of the host itself; the zero value if it has none of that name.
func (h *GraphHost) port(name string) GraphLink {
	i := slices.IndexFunc(h.Own.Links, func(l GraphLink) bool { return l.Name == name })
	if i < 0 {
		return GraphLink{}
	}
	return h.Own.Links[i]
}

// underHeight is the height of the underlay in the picture.
func (h *GraphHost) underHeight() float64 {
	if len(h.Containers) == 0 {
		return svgBar
	}
	return svgHead + svgChip + svgGap + float64(len(h.paths()))*(svgPath+svgGap)
}

// drawRouters draws the routers of hosts below their links, and the paths that join them.
func (h *GraphHost) drawRouters(d *drawing, at rect, middles []float64) {
	const wide = 280
	top := at.y + svgHead
	line := func(x, from, to float64) {
		fmt.Fprintf(&d.boxes, `<path d="M%.1f %.1fV%.1f" class="way"/>`+"\n", x, from, to)
	}
	paths := h.paths()
	bars := make([]rect, len(paths))
	for i := range bars {
		bars[i] = rect{
			at.x + 12, top + svgChip + svgGap + float64(i)*(svgPath+svgGap), at.w - 24, svgPath,
		}
	}
	for i, c := range h.Containers {
		if i >= len(middles) {
			break
		}
		for j := range bars {
			x := middles[i] + (float64(j)-float64(len(bars)-1)/2)*svgGap
			line(x, top+svgChip, bars[j].y)
		}
		line(middles[i], at.y, top)
		chip := rect{middles[i] - wide/2, top, wide, svgChip}
		d.box(chip, "chip")
		d.text(chip.x+10, chip.y+19, "name", "%s", c.Name)
		var addresses []string
		for _, l := range c.Space.Links {
			if l.Name == routerDown {
				addresses = l.Addresses
			}
		}
		d.text(chip.x+10, chip.y+36, "small", "%s", fit(strings.Join(addresses, "  "), chip.w-20))
	}
	for i, p := range paths {
		d.box(bars[i], "bridge")
		d.text(bars[i].x+10, bars[i].y+18, "text", "%s  %s", p.Name, p.Type)
	}
}

// drawUnder draws the underlay.
func (h *GraphHost) drawUnder(d *drawing, at rect, between []control.Layer, middles []float64) {
	d.box(at, "underlay")
	d.text(at.x+12, at.y+19, "name", "underlay")
	d.text(at.x+100, at.y+19, h.class(), "%s", h.state())
	if len(between) > 0 && between[0].Medium != "" {
		d.text(at.x+at.w-12, at.y+19, "end", "%s", fit(between[0].Medium, at.w-220))
	}
	if len(h.Containers) > 0 {
		h.drawRouters(d, at, middles)
		return
	}
	var names []string
	for _, l := range h.Own.Links {
		if l.Master == "" && l.Name != "lo" {
			names = append(names, l.text(true))
		}
	}
	d.text(at.x+12, at.y+36, "small", "%s", fit(strings.Join(names, "; "), at.w-24))
}

// layersHeight returns the height of the layers in the picture; 0 if only the underlay is between hosts.
func (g *Graph) layersHeight() float64 {
	if len(g.Between) <= 2 { // only the underlay and the containers
		return 0
	}
	return svgHead + float64(len(g.Between))*svgLayer
}

// layers draws, below a box, how a packet of full size is wrapped. The part that a layer adds is left of what it
// carries, which is the bar above.
func (g *Graph) layers(d *drawing, below rect) {
	if g.layersHeight() == 0 {
		return
	}
	d.text(below.x, below.y+svgHead-12, "name", "between hosts: a packet of full size")
	right, sealed := below.x+below.w, false
	for i, l := range g.Between {
		left := below.x + float64(max(0, i-1))*svgAdded
		bar := rect{left, below.y + svgHead + float64(len(g.Between)-1-i)*svgLayer, right - left, svgLayer}
		class, about, size := "layer", strings.Join(l.Wire, " and "), fmt.Sprintf("%d bytes", l.Size)
		switch {
		case i == 0:
			class, about, size = "underlay", l.Medium, fmt.Sprintf("MTU %d", l.MTU)
		case i == len(g.Between)-1:
			class, about, size = "payload", "what a container sends, at most", fmt.Sprintf("%d bytes", l.MTU)
		}
		sealed = sealed || l.Cipher != ""
		if class == "layer" && sealed {
			class = "sealed"
		}
		d.box(bar, class)
		text := bar.x + 12
		if l.Added > 0 {
			text += svgAdded
			added := map[bool]string{true: "keyed", false: "added"}[l.Cipher != ""]
			d.box(rect{bar.x, bar.y, svgAdded, bar.h}, added)
			d.text(bar.x+svgAdded/2, bar.y+bar.h/2+4, "mid", "+%d", l.Added)
		}
		d.text(text, bar.y+18, "name", "%s", l.Name)
		d.text(right-12, bar.y+18, "end", "%s", size)
		if l.Cipher != "" {
			about += ", " + l.Cipher
		}
		if l.Source != "" {
			about += ": " + l.Source
		}
		d.text(text, bar.y+35, "small", "%s", fit(about, right-text-12))
	}
}

// rows are the vertical positions, the same in all hosts.
type rows struct{ boxY, boxH, bridgeY, stackY, stackH, chipY float64 }

func (h *GraphHost) class() string {
	if len(h.Drift) > 0 {
		return "bad"
	}
	return "good"
}

// draw draws a host into its frame, and returns the middle of its link to the underlay.
func (h *svgHost) draw(d *drawing, frame rect, at rows, under rect) (middle float64) {
	fmt.Fprintf(&d.lines, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="8" class="frame"/>`+"\n", frame.x,
		frame.y, frame.w, frame.h)
	d.text(frame.x+svgPad, frame.y+26, "name", "%s", h.Name)
	d.text(frame.x+svgPad+40, frame.y+26, h.class(), "%s: %s", h.state(), several(h.Steps, "step"))
	left, inner := frame.x+svgPad, h.inner
	stack := rect{left, at.stackY, inner, at.stackH}
	if h.aside {
		stack.w = svgAside
		left, inner = left+svgAside+svgGap, inner-svgAside-svgGap
	}
	d.box(stack, "stack")
	for i, line := range h.stack {
		class := "small"
		if i == 0 {
			class = "text"
		}
		d.text(stack.x+10, stack.y+18+float64(i*svgLine), class, "%s", fit(line, stack.w-20))
	}
	bars := map[string]rect{}
	for i, b := range h.bridges {
		w := (inner - float64(len(h.bridges)-1)*svgGap) / float64(len(h.bridges))
		bar := rect{left + float64(i)*(w+svgGap), at.bridgeY, w, svgBar}
		bars[b.Name] = bar
		d.box(bar, "bridge")
		d.text(bar.x+10, bar.y+19, "name", "%s", fit(b.Name+"  "+b.Type, bar.w-20))
		d.text(bar.x+10, bar.y+36, "small", "%s", fit(strings.Join(b.Addresses, "  "), bar.w-20))
		if len(b.Addresses) > 0 {
			d.line(bar.middle(), bar.bottom(), bar.middle(), stack.y)
		}
	}
	chips := map[string]rect{}
	chipLeft, chipInner := left, inner
	if h.aside && h.direct() { // nothing crosses the path of packets that bypass the host
		chipLeft, chipInner = stack.x, stack.w
	}
	for i, u := range h.uplinks {
		w := min(300, (chipInner-float64(len(h.uplinks)-1)*svgGap)/float64(len(h.uplinks)))
		chip := rect{
			chipLeft + chipInner/2 - (w+svgGap)*float64(len(h.uplinks))/2 + float64(i)*(w+svgGap) + svgGap/2,
			at.chipY, w, svgChip,
		}
		chips[u.Name], middle = chip, chip.middle()
		d.box(chip, "chip")
		d.text(chip.x+10, chip.y+19, "name", "%s", u.Name)
		d.text(chip.x+10, chip.y+36, "small", "%s", fit(strings.Join(u.Addresses, "  "), chip.w-20))
		d.line(chip.middle(), chip.bottom(), chip.middle(), under.y)
		d.text(chip.middle()+6, under.y-10, "link", "%s", u.Peer.Name)
		switch bar, ported := bars[u.Master]; {
		case ported:
			d.line(bar.x+bar.w*0.75, bar.bottom(), chip.middle(), chip.y)
		case h.aside:
			d.line(stack.middle(), stack.bottom(), max(chip.x+10, min(stack.middle(), chip.x+chip.w-10)), chip.y)
		default:
			d.line(chip.middle(), stack.bottom(), chip.middle(), chip.y)
		}
	}
	x := left + (inner-h.row)/2
	for i := range h.shown {
		box := rect{x, at.boxY, svgBox, at.boxH}
		h.container(d, &h.shown[i], box, bars, chips, stack, under)
		x += svgBox + svgGap
	}
	if h.more > 0 {
		box := rect{x, at.boxY, svgMore, at.boxH}
		d.box(box, "more")
		d.text(box.x+12, box.y+box.h/2+4, "text", "and %d more", h.more)
	}
	return middle
}

// direct reports whether a container in the picture is joined to the underlay itself.
func (h *svgHost) direct() bool {
	return slices.ContainsFunc(h.shown, func(c GraphContainer) bool {
		return slices.ContainsFunc(c.Space.Links, func(l GraphLink) bool { return l.Peer != nil && l.Peer.At == underlay })
	})
}

// container draws a container and its links to other boxes.
func (h *svgHost) container(d *drawing, c *GraphContainer, box rect, bars, chips map[string]rect, stack, under rect) {
	class := "container"
	if c.Shared {
		class = "shared"
		d.line(box.middle(), box.bottom(), box.middle(), stack.y)
	}
	d.box(box, class)
	d.text(box.x+10, box.y+20, "name", "%s", c.Name)
	for i, line := range c.lines() {
		d.text(box.x+10, box.y+38+float64(i*svgLine), "small", "%s", fit(line, box.w-16))
	}
	var joined []GraphLink
	for _, l := range c.Space.Links {
		if l.Peer != nil || l.Lower != nil {
			joined = append(joined, l)
		}
	}
	for i, l := range joined {
		from := box.x + box.w*float64(i+1)/float64(len(joined)+1)
		end := l.Peer
		if end == nil {
			end = l.Lower
		}
		label, near := end.Name, h.link(end)
		if near != nil && len(near.Addresses) > 0 && l.Peer != nil {
			label += " " + near.Addresses[0]
		}
		to, toY := from, box.bottom()+svgReach/2
		chip, isChip := chips[end.Name]
		bar, isPort := rect{}, false
		if near != nil {
			bar, isPort = bars[near.Master]
			if itself, is := bars[near.Name]; is {
				bar, isPort = itself, true
			}
		}
		switch {
		case end.At == underlay:
			toY = under.y
		case near == nil:
			label = end.String()
		case isPort:
			toY = bar.y
		case isChip:
			to, toY = chip.x+chip.w*(from-box.x)/box.w, chip.y
			label = "over " + label
		default:
			toY = stack.y
		}
		d.line(from, box.bottom(), to, toY)
		labelY := min(toY, box.bottom()+svgReach) - 10
		d.text(from+6, labelY, "link", "%s", fit(label, box.w*0.6))
	}
}

// link returns a link of the host itself; nil if the end is elsewhere.
func (h *svgHost) link(e *End) *GraphLink {
	i := slices.IndexFunc(h.Own.Links, func(l GraphLink) bool { return e.At == h.Name && l.Name == e.Name })
	if i < 0 {
		return nil
	}
	return &h.Own.Links[i]
}
