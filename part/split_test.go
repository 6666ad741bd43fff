package part_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
)

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		"":                           {""},
		"bridge":                     {"bridge"},
		"bridge,nat(hairpin=true),a": {"bridge", "nat(hairpin=true)", "a"},
		"mix(a(x=1,y=2)*3,b),c":      {"mix(a(x=1,y=2)*3,b)", "c"},
		`a(x="),(",y='(,'),b`:        {`a(x="),(",y='(,')`, "b"},
		`a(x= "\"),"),b`:             {`a(x= "\"),")`, "b"},
		`a(x=it's),b(y=it's)`:        {"a(x=it's)", "b(y=it's)"},
		`a(x=1=")",b)`:               {`a(x=1=")"`, "b)"}, // only a value that begins with a quote is quoted
		"a),b":                       {"a),b"},
	} {
		if diff := cmp.Diff(want, part.Split(in)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}
