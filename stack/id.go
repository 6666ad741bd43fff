package stack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/part"
)

// signs are the characters that can stand before a part in an id.
const signs = "+@"

// ID writes a stack: "bridge+nftables(rules=1000)@lxc". After the sign of its kind, each choice has the parameters that
// differ from their defaults. A choice that is the default of its kind is left out. If the name of a part would be read
// as a part of another kind, its kind stands before it: "routed+tunnel:ovs". [Kinds.Parse] reads what ID writes.
func (k Kinds) ID(s Stack) string { return strings.Join(k.write(s, Choice.ID), "") }

// Labels writes a stack like [Kinds.ID], but as one string per kind, with the names that reports use for the parts in
// labs with this number of hosts, see [Labeler].
func (k Kinds) Labels(s Stack, hosts int) []string {
	return k.write(s, func(c Choice) string { return c.Label(hosts) })
}

func (k Kinds) write(s Stack, text func(Choice) string) []string {
	pieces := make([]string, len(k))
	last := -1
	for i, kind := range k {
		d := kind.Describe()
		c, ok := s.Of(d.Name)
		if !ok || c.Standard() {
			continue
		}
		sign := d.Sign
		if last < 0 {
			sign = ""
		}
		pieces[i] = sign + text(c)
		if k.meant(last, sign, c.Part.Name) != i {
			pieces[i] = sign + d.Name + ":" + text(c)
		}
		last = i
	}
	return pieces
}

// meant returns the index of the kind of a part, given its sign and the kind of the part before it: the first kind that
// has a part of that name. It is -1 if there is none.
func (k Kinds) meant(before int, sign, name string) int {
	for i := before + 1; i < len(k); i++ {
		d := k[i].Describe()
		if (d.Sign == sign || sign == "") && slices.Contains(Names(k[i]), name) {
			return i
		}
	}
	return -1
}

// Parse reads the id of a stack, as [Kinds.ID] writes it, and completes the stack. Spaces and quotes are as in
// [part.Parse].
func (k Kinds) Parse(id string) (Stack, error) {
	var s Stack
	last := -1
	for _, p := range part.Pieces(id, signs) {
		i, text, err := k.kindOf(last, p)
		if err != nil {
			return nil, err
		}
		d := k[i].Describe()
		name, given, err := part.Parse(d.Name, text)
		if err != nil {
			return nil, err
		}
		c, err := k.Choose(d.Name, name, given)
		if err != nil {
			return nil, err
		}
		s, last = append(s, c), i
	}
	return k.Complete(s)
}

// Relabel writes a part of an id, such as "nftables(rules=10,match=set)", with another text in place of its name and
// without one of its parameters; "" stands for none of them.
func Relabel(id, label, without string) string {
	_, given, _ := strings.Cut(id, "(")
	var params []string
	for _, p := range part.Split(strings.TrimSuffix(given, ")")) {
		if name, _, _ := strings.Cut(p, "="); p != "" && name != without {
			params = append(params, p)
		}
	}
	if params == nil {
		return label
	}
	return label + "(" + strings.Join(params, ",") + ")"
}

// A Setting is a value of the stack as a whole rather than of a part, such as the MTU of its links.
type Setting struct{ Name, Value string }

// WithSettings adds settings to the id of a stack: "bridge+nftables+mtu=9000". [Settings] removes them again.
func WithSettings(id string, settings ...Setting) string {
	for _, s := range settings {
		id += SettingLabel(s)
	}
	return id
}

// SettingLabel writes a setting as ids have it: "+mtu=9000".
func SettingLabel(s Setting) string { return "+" + s.Name + "=" + s.Value }

// Settings splits an id into the stack and its settings.
func Settings(id string) (rest string, settings []Setting) {
	rest = id
	pieces := part.Pieces(id, signs)
	for i := len(pieces) - 1; i > 0; i-- {
		p := pieces[i]
		name, value, ok := strings.Cut(p.Text, "=")
		if !ok || p.Sign != "+" || strings.Contains(name, "(") {
			break
		}
		settings = append(settings, Setting{strings.TrimSpace(name), strings.TrimSpace(value)})
		rest = strings.TrimSuffix(rest, p.Sign+p.Text)
	}
	slices.Reverse(settings)
	return rest, settings
}

// kindOf returns the kind of a piece of an id, and the piece without a prefix that names the kind.
func (k Kinds) kindOf(last int, p part.Piece) (int, string, error) {
	sign := strings.TrimSpace(p.Sign)
	name, _, _ := strings.Cut(p.Text, "(")
	if kind, rest, ok := strings.Cut(name, ":"); ok {
		i := slices.IndexFunc(k, func(of Kind) bool { return of.Describe().Name == kind })
		switch {
		case i < 0:
			_, err := k.Find(kind)
			return 0, "", err
		case i <= last:
			return 0, "", fmt.Errorf("%s %q follows a %s (valid order: %s)", kind, rest, k[last].Describe().Name,
				k.order())
		case sign != "" && k[i].Describe().Sign != sign:
			return 0, "", fmt.Errorf("%s %q follows the sign %q (valid: %q)", kind, rest, sign, k[i].Describe().Sign)
		}
		return i, strings.TrimPrefix(p.Text, kind+":"), nil
	}
	if i := k.meant(last, sign, name); i >= 0 {
		return i, p.Text, nil
	}
	// If a kind is required here, the error asks for the first such kind; otherwise it lists all kinds that can stand
	// here.
	var known []string
	kinds := ""
	for i := last + 1; i < len(k); i++ {
		d := k[i].Describe()
		if sign != "" && d.Sign != sign || len(k[i].Parts()) == 0 {
			continue
		}
		if kinds == "" {
			kinds = d.Name
		} else {
			kinds += " or " + d.Name
		}
		for _, n := range Names(k[i]) {
			if !slices.Contains(known, n) {
				known = append(known, n)
			}
		}
		if d.Default == "" {
			break
		}
	}
	if kinds == "" {
		return 0, "", fmt.Errorf("%q follows a part of the last kind (valid order: %s)", p.Text, k.order())
	}
	return 0, "", &part.UnknownError{Kind: kinds, Name: name, Known: known}
}

// order lists the kinds in the order of an id: "network+filter+tunnel+encryption@runtime".
func (k Kinds) order() string {
	var b strings.Builder
	for i, kind := range k {
		d := kind.Describe()
		if i > 0 {
			b.WriteString(d.Sign)
		}
		b.WriteString(d.Name)
	}
	return b.String()
}
