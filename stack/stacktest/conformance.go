package stacktest

import (
	"encoding/json"
	"testing"

	"github.com/nettoll/nettoll/stack"
)

// Conformance checks a list of kinds: names and signs exist and are distinct, and defaults exist. Every part, with each
// value that its parameters list, must be read back unchanged from its id and its JSON form.
func Conformance(t *testing.T, kinds stack.Kinds) {
	t.Helper()
	names := map[string]bool{}
	var base stack.Stack // the required choices
	for i, kind := range kinds {
		d := kind.Describe()
		if d.Name == "" || d.Plural == "" || d.Summary == "" || names[d.Name] {
			t.Errorf("kind %d, %q: name, plural or summary is empty, or the name is that of another kind", i, d.Name)
		}
		names[d.Name] = true
		if (d.Sign == "") != (i == 0) {
			t.Errorf("kind %s: the sign is %q; the first kind alone has none", d.Name, d.Sign)
		}
		parts := map[string]bool{}
		for _, p := range kind.Parts() {
			if p.Name == "" || p.Name == stack.None || p.Summary == "" || p.Value == nil || parts[p.Name] {
				t.Errorf("%s %q: name, summary or value is empty, or the name is taken", d.Name, p.Name)
			}
			parts[p.Name] = true
		}
		switch {
		case d.Default == "" && len(kind.Parts()) == 0:
			t.Errorf("kind %s has no default and no parts", d.Name)
		case d.Default == "":
			base = append(base, choose(t, kinds, d.Name, kind.Parts()[0].Name, nil))
		case d.Default != stack.None && !parts[d.Default]:
			t.Errorf("kind %s: the default %q is not one of its parts", d.Name, d.Default)
		}
	}
	if t.Failed() {
		return
	}
	for _, kind := range kinds {
		name := kind.Describe().Name
		for _, p := range stack.Choices(kind) {
			same(t, kinds, base.With(choose(t, kinds, name, p.Name, nil)))
			for _, param := range p.Params {
				for _, value := range param.Values {
					same(t, kinds, base.With(choose(t, kinds, name, p.Name, map[string]string{param.Name: value})))
				}
			}
		}
	}
}

func choose(t *testing.T, kinds stack.Kinds, kind, name string, given map[string]string) stack.Choice {
	t.Helper()
	c, err := kinds.Choose(kind, name, given)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// same checks that a stack is read back unchanged from its id and from JSON.
func same(t *testing.T, kinds stack.Kinds, given stack.Stack) {
	t.Helper()
	s, err := kinds.Complete(given)
	if err != nil {
		t.Error(err)
		return
	}
	id := kinds.ID(s)
	if again, err := kinds.Parse(id); err != nil || !again.Equal(s) {
		t.Errorf("%s is read as another stack (%v)", id, err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return
	}
	var read stack.Stack
	if err := json.Unmarshal(b, &read); err != nil {
		t.Errorf("%s: %v", id, err)
		return
	}
	if again, err := kinds.Complete(read); err != nil || !again.Equal(s) {
		t.Errorf("%s is read from JSON as another stack (%v): %s", id, err, b)
	}
}
