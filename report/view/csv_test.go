package view_test

import (
	"encoding/csv"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report/export"
)

// No text of a record is a formula to a spreadsheet program, or controls a terminal; negative numbers stay numbers.
func TestCSVOfForged(t *testing.T) {
	for _, evil := range []string{
		"=cmd|'/c calc'!A0", "+1+cmd", "-2+3+cmd", "@SUM(1)", "\t=1", "\r=1", "a\x1b[2J\x07b\nforged,row",
	} {
		m := ugly(t)
		for i := range m.run.Cells {
			forge(reflect.ValueOf(&m.run.Cells[i]).Elem(), evil)
		}
		m.log.Trials[3].Failed = evil
		m.log.Trials[5].Warnings = []string{evil}
		m.log.Trials[5].Limit = evil
		m.log.Trials[5].Start = -1.5
		m.log.Labs = append(m.log.Labs, measure.LabRecord{Lab: evil, Metrics: map[string]float64{"setup_time": 1, evil: 2}})
		for name, write := range map[string]func(*strings.Builder) error{
			"rows":   func(b *strings.Builder) error { return export.CSV(b, m.data()) },
			"trials": func(b *strings.Builder) error { return export.Trials(b, m.data()) },
		} {
			var b strings.Builder
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
			if err != nil || len(rows) < 3 {
				t.Fatalf("%s: %d rows, %v", name, len(rows), err)
			}
			below := false
			for _, row := range rows {
				for _, field := range row {
					if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
						t.Errorf("%s of %q: %q has control characters", name, evil, field)
					}
					start := strings.TrimSpace(field)
					if start == "" || !strings.ContainsRune("=+-@", rune(start[0])) {
						continue
					}
					if _, err := strconv.ParseFloat(start, 64); err != nil {
						t.Errorf("%s of %q: %q is a formula", name, evil, field)
					}
					below = below || field == "-1.5"
				}
			}
			if name == "trials" && !below {
				t.Error("a number below zero is none any more")
			}
		}
	}
}

// forge writes a text into every string of a value, except the ids that other records refer to.
func forge(v reflect.Value, text string) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case v.Type().Field(i).Name == "ID", v.Type().Field(i).Name == "Group", v.Type().Field(i).Name == "Baseline",
			v.Type().Field(i).Name == "Primary":
		case f.Kind() == reflect.String:
			f.SetString(text)
		case f.Kind() == reflect.Map && f.Type().Elem().Kind() == reflect.String:
			f.Set(reflect.ValueOf(map[string]string{text: text}))
		}
	}
}
