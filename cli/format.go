package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nettoll/nettoll/report/export"
)

// sheet is data for scripts: JSON lines are written from objects, and CSV from columns and rows.
type sheet struct {
	columns []string
	rows    [][]string
	objects []any
}

// line is an object of JSON lines with a type, for output with objects of several types.
type line struct {
	kind  string
	value any
}

// MarshalJSON writes the value, which must be an object, with the key "type" before its other keys.
func (l line) MarshalJSON() ([]byte, error) {
	text, err := plainObject(l.value)
	if err != nil {
		return nil, err
	}
	kind, err := json.Marshal(l.kind)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("a line of type %s is not an object: %.40s", kind, text)
	}
	comma := ","
	if bytes.Equal(text, []byte("{}")) {
		comma = ""
	}
	return slices.Concat([]byte(`{"type":`), kind, []byte(comma), text[1:]), nil
}

// plainObject returns a value as JSON in one line, without escapes for HTML.
func plainObject(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// write writes a sheet as jsonl or csv.
func (s sheet) write(w io.Writer, format string) error {
	if format == "csv" {
		out := csv.NewWriter(w)
		err := out.Write(s.columns)
		if err == nil {
			err = out.WriteAll(s.rows) // flushes
		}
		return errors.Join(err, out.Error())
	}
	e := export.NewEncoder(w)
	for _, o := range s.objects {
		if err := e.Encode(o); err != nil {
			return err
		}
	}
	return nil
}
