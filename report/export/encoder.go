package export

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NewEncoder returns an encoder of JSON that people may read on a terminal. Names in records may hold characters that
// a terminal acts on, such as U+009B, or that change the order of the text, such as U+202E. encoding/json escapes only
// those below U+0020. The encoder escapes all that are not printable, so that nothing is lost. It does not escape for
// HTML.
func NewEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(printable{w})
	e.SetEscapeHTML(false)
	return e
}

// printable escapes characters of JSON that are not printable. Each call must have whole characters, as those of
// [json.Encoder].
type printable struct{ w io.Writer }

func (p printable) Write(text []byte) (int, error) {
	out := make([]byte, 0, len(text))
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == '\n' || unicode.IsPrint(r): // a line end within a string is already escaped
			out = append(out, rest[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}
