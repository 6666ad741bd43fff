package report

// Options are those of the views for people. Colour, width and All are of text alone.
type Options struct {
	Color bool // with the escape sequences of terminals
	Width int  // columns; 0 is 100. Names and words that are longer stand out of it
	All   bool // every metric of every cell, and every warning; else the important ones

	Sections []Section // shown after the answer, by all views for people
}
