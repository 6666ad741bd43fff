package report

import (
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// Titles have the name of a command. The record has the whole command.
func TestCommandName(t *testing.T) {
	c := &measure.Cell{
		ID: "host/same-host/1/command(name=iperf3,metric=goodput)", Workload: "command",
		Params: map[string]string{
			"name": "iperf3", "metric": "goodput", "source": "iperf3 -c {remote}", "sink": "", "figure": "json:a[0]",
			"unit": "Mbit/s", "shell": "false",
		},
		Unnamed: []string{"source", "sink", "figure", "unit", "shell"},
	}
	if got, want := load(c), "command metric goodput, name iperf3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
