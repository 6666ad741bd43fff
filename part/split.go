package part

import "strings"

// Split splits a list of parts, each as [Parse] reads it, at commas outside parentheses and quotes.
func Split(s string) []string {
	var list []string
	for _, p := range Pieces(s, ",") {
		list = append(list, p.Text)
	}
	return list
}

// A Piece is one part of a text that has several.
type Piece struct {
	Sign string // the sign before it; "" for the first
	Text string
}

// Pieces splits parts, each as [Parse] reads it, at the signs between them. Signs are single bytes outside parentheses
// and quotes.
func Pieces(s, signs string) []Piece {
	var pieces []Piece
	depth, start, sign := 0, 0, ""
	in := byte(0)                // the quote that is open
	value, named := false, false // from the first = of a parameter to its value; after that =
	list := false                // between the brackets of a list of values
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case in != 0:
			if c == '\\' && in == '"' {
				i++
			} else if c == in {
				in = 0
			}
		case value && strings.IndexByte(quotes, c) >= 0:
			in, value = c, false
		case depth == 0 && strings.IndexByte(signs, c) >= 0:
			value, named, list = false, false, false
			pieces = append(pieces, Piece{sign, s[start:i]})
			sign, start = s[i:i+1], i+1
		case c == '(':
			depth++
			value, named, list = false, false, false
		case c == ')':
			depth--
			value, list = false, false
		case c == '[' && value:
			list = true // its first value follows
		case c == ']' && list:
			value, list = false, false
		case c == ',':
			value, named = list, list
		case c == '=':
			value, named = !named, true
		case strings.IndexByte(blanks, c) < 0:
			value = false
		}
	}
	return append(pieces, Piece{sign, s[start:]})
}
