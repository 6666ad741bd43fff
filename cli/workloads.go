package cli

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/workload"
)

//go:embed workloads.tmpl
var workloadsTemplate string

// discipline is the template data of a workload.
type discipline struct {
	workload.Description
	Default part.Params
	Own     part.List // parameters that are not socket parameters
	Shared  []string  // names of its socket parameters
	Known   []measure.Metric
	Drivers []string
}

// Shortest returns the default length of a trial if each thread has its own CPU.
func (d discipline) Shortest() time.Duration { return d.Trial(d.Default) }

// PrimaryMetric returns the name of the primary metric with the default parameters.
func (d discipline) PrimaryMetric() string { return d.Primary(d.Default) }

// WorkloadsDocument returns docs/workloads.md, made from the catalogue. The error is one of the template or of a
// default parameter.
func WorkloadsDocument() ([]byte, error) {
	parts := catalogue.New()
	common := workload.StreamParams()
	var list []discipline
	for _, w := range parts.Workloads {
		d := discipline{Description: w.Describe()}
		var err error
		if d.Default, err = d.Resolve(nil); err != nil {
			return nil, err
		}
		for _, p := range d.Params {
			if slices.ContainsFunc(common, func(c part.Param) bool { return c.Name == p.Name }) {
				d.Shared = append(d.Shared, p.Name)
			} else {
				d.Own = append(d.Own, p)
			}
		}
		for _, m := range parts.Parts().Metrics.All() {
			if slices.Contains(d.Metrics, m.Name) {
				d.Known = append(d.Known, m)
			}
		}
		for _, f := range parts.Drivers {
			if serves(f, d.Description) {
				d.Drivers = append(d.Drivers, f.Describe().Name)
			}
		}
		list = append(list, d)
	}
	var drivers []driver.Description
	for _, f := range parts.Drivers {
		drivers = append(drivers, f.Describe())
	}
	functions := template.FuncMap{
		"join":    strings.Join,
		"cell":    func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"capital": capital,
	}
	t, err := template.New("workloads").Funcs(functions).Parse(workloadsTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		Workloads []discipline
		Drivers   []driver.Description
		Common    part.List
	}{list, drivers, common})
	return []byte(WrapDocument(b.String())), err
}

// capital makes the first letter a capital.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
