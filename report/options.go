package report

// Options are the options of views for people. Color, Width and All apply to text alone.
type Options struct {
	Color bool // use the escape sequences of terminals
	Width int  // columns; 0: 100. Longer names and words exceed it
	All   bool // show every metric of every cell, and every warning; else the important ones

	Sections []Section // shown after the answer, by all views for people
}
