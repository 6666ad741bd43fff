package command

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/part"
)

// A line is a command as words, with placeholders. No words mean that there is no command.
type line struct{ words []string }

// places are the values of placeholders.
type places struct {
	local, remote netip.Addr
	port          uint16
	seconds, pair int
}

// placeholders lists the placeholders of a side. The sink's command starts before the length of its trial is known.
func placeholders(side string) []string {
	names := []string{"local", "remote", "port", "pair"}
	if side == "source" {
		names = append(names, "seconds")
	}
	return names
}

func (p places) of(name string) string {
	switch name {
	case "local":
		return p.local.String()
	case "remote":
		return p.remote.String()
	case "port":
		return strconv.Itoa(int(p.port))
	case "pair":
		return strconv.Itoa(p.pair)
	}
	return strconv.Itoa(p.seconds)
}

// parse reads the command of one side.
func parse(p part.Params, side string) (line, error) {
	text := p[side]
	if strings.TrimSpace(text) == "" {
		return line{}, nil
	}
	l := line{words: []string{"sh", "-c", text}}
	if !p.On("shell") {
		var err error
		if l.words, err = split(text); err != nil {
			return line{}, err
		}
	}
	if strings.ContainsRune(text, 0) {
		return line{}, errors.New("a command cannot contain a NUL byte")
	}
	known := placeholders(side)
	for _, m := range pattern().FindAllStringSubmatch(strings.Join(l.words, " "), -1) {
		if m[1] == "" && !slices.Contains(known, m[2]) {
			why := ""
			if m[2] == "seconds" {
				why = ": a sink is there before its trial begins"
			}
			return line{}, fmt.Errorf("unknown placeholder {%s} (known: {%s})%s", m[2], strings.Join(known, "}, {"), why)
		}
	}
	return l, nil
}

// pattern returns a pattern for a word in braces. Braces after a $ or a % belong to a shell or to curl (--write-out).
func pattern() *regexp.Regexp { return regexp.MustCompile(`([$%]?)\{([a-z_]+)\}`) }

// fill replaces the placeholders with their values.
func (l line) fill(at places) []string {
	re := pattern()
	filled := make([]string, len(l.words))
	for i, w := range l.words {
		filled[i] = re.ReplaceAllStringFunc(w, func(s string) string {
			if s[0] != '{' {
				return s
			}
			return at.of(s[1 : len(s)-1])
		})
	}
	return filled
}

// operators are characters that a shell would act on, and blanks separate words (IEEE Std 1003.1-2017, XCU 2.2 and
// 2.3).
const (
	operators = "|&;<>()`"
	blanks    = " \t\n\r"
)

// split splits a line into words like a shell. A backslash quotes one character, single quotes quote all, and double
// quotes all except \", \\, \$ and \`. Characters that a shell would act on must be quoted, so that a command is not
// mistaken for a shell's.
func split(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	open := false // there is a word, even if it is empty
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case strings.IndexByte(blanks, c) >= 0:
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
			continue
		case c == '\'':
			n := strings.IndexByte(s[i+1:], '\'')
			if n < 0 {
				return nil, errors.New("a quote (') is not closed")
			}
			word.WriteString(s[i+1 : i+1+n])
			i += n + 1
		case c == '"':
			n, err := doubleQuoted(&word, s[i+1:])
			if err != nil {
				return nil, err
			}
			i += n
		case c == '\\':
			if i+1 == len(s) {
				return nil, errors.New("the command ends with a backslash")
			}
			i++
			word.WriteByte(s[i])
		case strings.IndexByte(operators, c) >= 0:
			return nil, fmt.Errorf("%c needs a shell (quote it, or set shell: true)", c)
		default:
			word.WriteByte(c)
		}
		open = true
	}
	if open {
		words = append(words, word.String())
	}
	if len(words) > 0 && words[0] == "" {
		return nil, errors.New("the first word, the program, is empty")
	}
	return words, nil
}

// doubleQuoted writes the text up to the closing quote, and returns its length including the quote.
func doubleQuoted(word *strings.Builder, s string) (int, error) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
			word.WriteByte(s[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, errors.New(`a quote (") is not closed`)
}
