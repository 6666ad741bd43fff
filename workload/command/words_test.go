package command

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
)

// The results are those of a POSIX shell, except for characters that it would act on (checked against dash with printf
// '%s\n').
func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"iperf3 -c {remote} -J":          {"iperf3", "-c", "{remote}", "-J"},
		"  a\tb\n c\r\n":                 {"a", "b", "c"},
		`a 'b c' "d e"`:                  {"a", "b c", "d e"},
		`a'b'"c"\d`:                      {"abcd"},
		`a '' ""`:                        {"a", "", ""},
		`a '\' "\"\\\$\` + "`" + `\n"`:   {"a", `\`, "\"\\$`\\n"},
		`a \' \" \  b\ c`:                {"a", "'", `"`, " ", "b c"},
		`awk '{print $1}'`:               {"awk", "{print $1}"},
		`curl "http://x/?a=1&b=2" 'a|b'`: {"curl", "http://x/?a=1&b=2", "a|b"},
		"a $HOME * ~ #b":                 {"a", "$HOME", "*", "~", "#b"},
		"µ 'ä ö'":                        {"µ", "ä ö"},
		"":                               nil,
	} {
		got, err := split(text)
		if err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"a 'b":       "a quote (') is not closed",
		`a "b`:       `a quote (") is not closed`,
		`a "b\"`:     `a quote (") is not closed`,
		`a \`:        "the command ends with a backslash",
		"a | b":      "| needs a shell (quote it, or set shell: true)",
		"a > b":      "> needs a shell",
		"a; b":       "; needs a shell",
		"curl x?a&b": "& needs a shell",
		"a $(b)":     "( needs a shell",
		"a `b`":      "` needs a shell",
		"'' a":       "the program, is empty",
	} {
		if got, err := split(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestFill(t *testing.T) {
	at := places{
		local: netip.MustParseAddr("10.0.0.1"), remote: netip.MustParseAddr("fd00::2"), port: 7000, seconds: 3,
		pair: 4,
	}
	for text, want := range map[string][]string{
		"a -B {local} {remote}:{port} http://[{remote}]:{port}/": {
			"a", "-B", "10.0.0.1", "fd00::2:7000",
			"http://[fd00::2]:7000/",
		},
		"a '{seconds}' x{pair}x": {"a", "3", "x4x"},
		"curl -w %{time_total} ${local} {} {a,b} '{print $1}'": {
			"curl", "-w", "%{time_total}", "${local}", "{}", "{a,b}",
			"{print $1}",
		},
		`{port}`: {"7000"},
	} {
		l, err := parse(part.Params{"source": text}, "source")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, l.fill(at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	l, err := parse(part.Params{"sink": "a|b {port} '", "shell": "true"}, "sink")
	if diff := cmp.Diff([]string{"sh", "-c", "a|b 7000 '"}, l.fill(at)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, tt := range []struct{ side, text, want string }{
		{"source", "a {host}", "unknown placeholder {host} (known: {local}, {remote}, {port}, {pair}, {seconds})"},
		{"sink", "a {seconds}", "unknown placeholder {seconds} (known: {local}, {remote}, {port}, {pair}): a sink is there " +
			"before its trial begins"},
		{"sink", "a \x00", "NUL"},
	} {
		if _, err := parse(part.Params{tt.side: tt.text}, tt.side); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: %v, want %q", tt.side, tt.text, err, tt.want)
		}
	}
}

// FuzzSplit checks that any line gives an error or words, and that quoted words are read back.
func FuzzSplit(f *testing.F) {
	f.Add(`a 'b c' "d\"e" \f {port}`)
	f.Add("a|b")
	f.Fuzz(func(t *testing.T, text string) {
		words, err := split(text)
		if err != nil {
			if words != nil {
				t.Errorf("%q: %q and %v", text, words, err)
			}
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		again, err := split(strings.Join(quoted, " "))
		if err != nil || cmp.Diff(words, again) != "" {
			t.Errorf("%q: %q, and quoted %q, %v", text, words, again, err)
		}
	})
}
