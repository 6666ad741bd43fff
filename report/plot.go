package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/nettoll/nettoll/measure"
)

// Plot is a published figure in its original layout, drawn twice: as published, and as measured here.
type Plot struct {
	Name, Title, Subtitle string
	Note                  string
	Panels                []PlotPanel
}

// PlotPanel is one of the axes of a plot, with groups of bars along it.
type PlotPanel struct {
	Title     string  // the quantity
	Unit      string  // "" for shares of something
	Of        string  // the whole, if the bars are shares
	In        string  // the unit in which it was published; "": Unit
	Per       float64 // one of In, in Unit
	Better    measure.Better
	Groups    []string // along the axis; a single "" if there is only one group
	Series    []string // the bars of each group
	Published [][]Bar  // by group and series
	Here      [][]Bar
}

// Bar is a value with the ends of its interval; NaN if unknown.
type Bar struct {
	Value, Lo, Hi float64
	As            string // the value as it was published, with its unit; "" of one that was not
}

// NoBar returns a bar whose value is unknown.
func NoBar() Bar { return Bar{Value: math.NaN(), Lo: math.NaN(), Hi: math.NaN()} }

// Said returns the text of a bar: as it was published, or else its value.
func (p *PlotPanel) Said(b Bar) string {
	if b.As != "" {
		return b.As
	}
	return p.Text(b.Value)
}

// Text returns the value of a bar; "–" if unknown.
func (p *PlotPanel) Text(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case p.Of != "":
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return Number(x, p.Unit)
}

// Blocks returns the plot as words and tables, for views without figures: the bars in their order.
func (p *Plot) Blocks() []Block {
	var list []Block
	for i := range p.Panels {
		panel := &p.Panels[i]
		t := &Table{Caption: panel.Title, Columns: []Column{
			{"", false}, {"published", true}, {"here", true}, {"95 % interval", false},
		}}
		if panel.Of != "" {
			t.Caption += ", of " + panel.Of
		}
		for g, group := range panel.Groups {
			for s, series := range panel.Series {
				name := group
				if series != "" && name != "" {
					name += ", "
				}
				here := panel.Here[g][s]
				row := []Field{
					{Text: name + series}, {Text: panel.Said(panel.Published[g][s])}, {Text: panel.Said(here)}, {},
				}
				if !math.IsNaN(here.Lo) && !math.IsNaN(here.Hi) {
					row[3].Text = fmt.Sprintf("%s to %s", panel.Text(here.Lo), panel.Text(here.Hi))
				}
				t.Rows = append(t.Rows, row)
			}
		}
		list = append(list, Block{Table: t})
	}
	if p.Note != "" {
		list = append(list, Block{Text: p.Note, Tone: Quiet})
	}
	return list
}
