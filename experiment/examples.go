package experiment

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed examples/*.yaml
var examples embed.FS

// DefaultExample is the name of the experiment that `nettoll run` measures without an argument.
const DefaultExample = "default"

// Example is an experiment that comes with nettoll.
type Example struct {
	Name    string
	Summary string // the first line of its comment
	Text    []byte
}

// Examples lists the examples, the default first.
func Examples() ([]Example, error) {
	entries, err := examples.ReadDir("examples")
	if err != nil {
		return nil, fmt.Errorf("read examples: %w", err)
	}
	var list []Example
	for _, entry := range entries {
		text, err := examples.ReadFile(path.Join("examples", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read examples: %w", err)
		}
		e := Example{Name: strings.TrimSuffix(entry.Name(), ".yaml"), Text: text}
		e.Summary = strings.TrimPrefix(firstLine(string(text)), "# ")
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b Example) int {
		switch {
		case a.Name == DefaultExample:
			return -1
		case b.Name == DefaultExample:
			return 1
		}
		return 0
	})
	return list, nil
}

// FindExample returns the example with a name.
func FindExample(name string) (Example, error) {
	list, err := Examples()
	if err != nil {
		return Example{}, err
	}
	return find("example", name, list, func(e Example) string { return e.Name })
}

// Default returns the experiment of `nettoll run` without an argument.
func Default(parts Parts) (Experiment, error) {
	e, err := FindExample(DefaultExample)
	if err != nil {
		return Experiment{}, err
	}
	return Read(e.Name+".yaml", e.Text, nil, parts)
}
