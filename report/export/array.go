package export

import (
	"bytes"
	"fmt"
	"io"
)

// Array collects JSON lines and writes them as one JSON array, with an element on each line.
func Array(w io.Writer, write func(lines io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	all := bytes.ReplaceAll(bytes.TrimSpace(b.Bytes()), []byte("\n"), []byte(",\n"))
	if _, err := fmt.Fprintf(w, "[\n%s\n]\n", all); err != nil {
		return fmt.Errorf("write json: %w", err)
	}
	return nil
}
