package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

// A Plan lists the steps for a host, in order. It is pure data: the same input gives the same plan, and a plan can be
// printed and sent. In JSON it is a list of objects, each with its "kind".
type Plan struct {
	Steps []Step
}

// A Step makes one change in the kernel of a host. Steps are plain values (structs with JSON tags, methods on the
// value), so that plans can be compared.
type Step interface {
	// Kind names the type of the step in JSON: "namespace", "bridge", "veth", "link", "route", "sysctl", …
	Kind() string
	// String describes the step in plain words.
	String() string
	// Apply makes the change in the kernel. With [Kernel.Keep] it saves what Remove has to know beyond the step itself:
	// the former value of a variable, or the index that the kernel gave to a link. If it fails, it leaves nothing
	// behind.
	Apply(ctx context.Context, k *Kernel) error
	// Remove undoes the change. It uses only the step and what was kept: the process that applied it may be gone. It
	// can be called more than once, and succeeds if the change is already gone.
	Remove(ctx context.Context, k *Kernel) error
	// Verify compares the kernel with the step. Differences are a [DriftError] with the wanted and the found values.
	Verify(*Kernel) error
}

// A Stepper is a part, or a kind of parts, with its own kinds of steps.
type Stepper interface {
	// Steps returns a function that returns a new, empty step for each kind, see [Decoder].
	Steps() map[string]func() Step
}

// String returns a line for each step.
func (p Plan) String() string {
	var b strings.Builder
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%3d %s\n", i+1, s)
	}
	return b.String()
}

// MarshalJSON writes the list of steps, each an object that starts with its kind.
func (p Plan) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, s := range p.Steps {
		if i > 0 {
			b.WriteByte(',')
		}
		if s == nil {
			return nil, fmt.Errorf("encode plan: step %d is nil", i+1)
		}
		step, err := encode(s)
		if err != nil {
			return nil, fmt.Errorf("encode plan: step %d (%s): %w", i+1, s.Kind(), err)
		}
		b.Write(step)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// encode writes a step as an object that starts with its kind.
func encode(s Step) (json.RawMessage, error) {
	kind, err := json.Marshal(s.Kind())
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if len(fields) < 2 || fields[0] != '{' {
		return nil, fmt.Errorf("it is not a JSON object: %.40q", fields)
	}
	var b bytes.Buffer
	b.WriteString(`{"kind":`)
	b.Write(kind)
	if len(fields) > 2 {
		b.WriteByte(',')
	}
	b.Write(fields[1:])
	return b.Bytes(), nil
}

// A Decoder reads plans. It knows the given kinds of steps and refuses all others.
type Decoder struct {
	// Kinds holds, for each kind, a function that returns a pointer to a new, empty step.
	Kinds map[string]func() Step
}

// Steps returns the kinds of steps that several parts use, and [MoveLink]. The caller adds those of parts, see
// [Stepper].
func Steps() map[string]func() Step {
	return map[string]func() Step{
		Namespace{}.Kind():    func() Step { return new(Namespace) },
		Bridge{}.Kind():       func() Step { return new(Bridge) },
		Veth{}.Kind():         func() Step { return new(Veth) },
		Link{}.Kind():         func() Step { return new(Link) },
		Route{}.Kind():        func() Step { return new(Route) },
		Multipath{}.Kind():    func() Step { return new(Multipath) },
		Sysctl{}.Kind():       func() Step { return new(Sysctl) },
		LinkSettings{}.Kind(): func() Step { return new(LinkSettings) },
		Neighbour{}.Kind():    func() Step { return new(Neighbour) },
		MoveLink{}.Kind():     func() Step { return new(MoveLink) },
		oldMoveLink:           func() Step { return new(MoveLink) },
		Shape{}.Kind():        func() Step { return new(Shape) },
		Segment{}.Kind():      func() Step { return new(Segment) },
	}
}

// Decode reads a plan that [Plan.MarshalJSON] wrote. Unknown kinds and unknown fields are errors.
// It returns a plan or an error, never both.
func (d Decoder) Decode(data []byte) (Plan, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return Plan{}, fmt.Errorf("decode plan: %w", err)
	}
	p := Plan{Steps: make([]Step, 0, len(list))}
	for i, raw := range list {
		s, err := d.Step(raw)
		if err != nil {
			return Plan{}, fmt.Errorf("decode plan: step %d: %w", i+1, err)
		}
		p.Steps = append(p.Steps, s)
	}
	return p, nil
}

// Step reads one step of a plan.
func (d Decoder) Step(raw json.RawMessage) (Step, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	var kind string
	if k, ok := fields["kind"]; !ok {
		return nil, errors.New(`missing key "kind"`)
	} else if err := json.Unmarshal(k, &kind); err != nil {
		return nil, fmt.Errorf("kind: %w", err)
	}
	empty, ok := d.Kinds[kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind %q (known: %s)", kind, strings.Join(slices.Sorted(maps.Keys(d.Kinds)), ", "))
	}
	delete(fields, "kind")
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	s := empty()
	dec := json.NewDecoder(bytes.NewReader(rest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	// Plans hold values, so that two equal plans are equal; the decoder needed a pointer.
	if v := reflect.ValueOf(s); v.Kind() == reflect.Pointer {
		if value, ok := reflect.TypeAssert[Step](v.Elem()); ok {
			return value, nil
		}
	}
	return s, nil
}

// A DriftError reports that the kernel differs from a step.
type DriftError struct {
	// Step is the text of the step.
	Step string
	// Drifts are the differences, at least one.
	Drifts []linux.Difference
}

// Add adds a difference.
func (e *DriftError) Add(what, want, got string) {
	e.Drifts = append(e.Drifts, linux.Difference{What: what, Want: want, Got: got})
}

// Error names the step and all differences.
func (e *DriftError) Error() string {
	parts := make([]string, len(e.Drifts))
	for i, d := range e.Drifts {
		parts[i] = d.String()
	}
	return fmt.Sprintf("the kernel differs from %q: %s", e.Step, strings.Join(parts, "; "))
}
