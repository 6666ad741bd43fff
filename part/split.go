package part

import "strings"

// Split cuts a list of parts, as [Parse] reads each, at its commas: not at those within parentheses or quotes.
func Split(s string) []string {
	var list []string
	for _, p := range Pieces(s, ",") {
		list = append(list, p.Text)
	}
	return list
}

// A Piece is a part in a text that has several.
type Piece struct {
	Sign string // what stands before it; "" before the first
	Text string
}

// Pieces cuts parts, as [Parse] reads each, at the signs between them, which are single bytes: not at those within
// parentheses or quotes.
func Pieces(s, signs string) []Piece {
	var pieces []Piece
	depth, start, sign := 0, 0, ""
	in := byte(0)                // the quote that is open
	value, named := false, false // between the first = of a parameter and its value; behind that =
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
			list = true // and its first value follows
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
