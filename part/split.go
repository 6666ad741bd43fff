package part

import "strings"

// Split cuts a list of parts, as [Parse] reads each, at its commas: not at those within parentheses or quotes.
func Split(s string) []string {
	var list []string
	depth, start := 0, 0
	in := byte(0)                // the quote that is open
	value, named := false, false // between the first = of a parameter and its value; behind that =
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
		case c == '(':
			depth++
			value, named = false, false
		case c == ')':
			depth--
			value = false
		case c == ',':
			if value, named = false, false; depth == 0 {
				list, start = append(list, s[start:i]), i+1
			}
		case c == '=':
			value, named = !named, true
		case c != ' ':
			value = false
		}
	}
	return append(list, s[start:])
}
